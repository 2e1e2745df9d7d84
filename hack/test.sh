#!/usr/bin/env bash
# Runs the linters and every test. The tests against a real API server need kube-apiserver and etcd, which are found or
# built first. NOSKIP=1 fails if any test was skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

KUBEBUILDER_ASSETS=$(hack/assets.sh)
export KUBEBUILDER_ASSETS
hack/lint.sh

# A folder of its own, so that tests that are interrupted leave nothing.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
log=$TMPDIR/log
printf 'test: go test ./... (the first time compiles for some minutes)\n' >&2
if ! go test -v ./... > "$log" 2>&1; then
	grep -vE '^(=== |\{"time"|PASS$|ok |\?  )|^ *--- PASS' "$log"
	exit 1
fi
grep -E '^(ok|\?) ' "$log"
skipped=$(grep -E '^ *--- SKIP|[1-9][0-9]* Skipped' "$log" || true)
if [[ -n $skipped ]]; then
	printf 'test: skipped:\n%s\n' "$skipped" >&2
	[[ -z ${NOSKIP:-} ]] || exit 1
fi
