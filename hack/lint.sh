#!/usr/bin/env bash
# Checks the code without running it. Without shellcheck the scripts are not checked, which NOSKIP=1 forbids.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'lint: %s\n' "$*" >&2; }

unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)
if [[ -n $unformatted ]]; then
	say "not formatted; run gofmt -w on:"
	printf '%s\n' "$unformatted" >&2
	exit 1
fi
go vet ./...
go vet -tags e2e ./e2e
GOOS=darwin go vet ./cmd/holdfast
say "staticcheck (built first where it is not in the build cache: a minute)"
go tool -modfile=hack/lint/go.mod staticcheck ./...
go tool -modfile=hack/lint/go.mod staticcheck -tags e2e ./e2e
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
if command -v shellcheck > /dev/null; then
	shellcheck "${scripts[@]}"
elif [[ -n ${NOSKIP:-} ]]; then
	say "shellcheck is not installed (Debian: apt-get install shellcheck)"
	exit 1
else
	say "skipped: shellcheck is not installed (Debian: apt-get install shellcheck)"
fi
go mod verify > /dev/null
go mod tidy -diff
