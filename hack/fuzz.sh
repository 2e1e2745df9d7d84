#!/usr/bin/env bash
# Runs every fuzz target of the project for FUZZTIME each (60s).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git grep -oE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' | while IFS=: read -r file target; do
	folder=$(dirname "$file") target=${target#func }
	printf 'fuzz: %s %s\n' "$folder" "$target" >&2
	go test "./$folder" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" < /dev/null
done
