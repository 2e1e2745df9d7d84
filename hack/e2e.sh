#!/usr/bin/env bash
# Runs the specs on real clusters, and checks that the machine is afterwards as it was before.
#
#   LABELS='smoke || ci'   which specs; by default smoke where third-party binaries still have to be built, else also ci
#   FOCUS='text'           only the specs whose names match
#   E2E_KUBECONFIG=FILE    only the specs that need nothing but a kubeconfig, on that cluster: they install the chart there,
#                          take its list over and give everything back
#   E2E_ARTIFACTS=FOLDER   where logs and states go when a spec fails; holdfast-e2e in the temporary folder by default
#   E2E_KEEP=1             leaves the clusters; bin/kind down -name NAME removes one
#   NOSKIP=1               fails if a spec was skipped
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'e2e: %s\n' "$*" >&2; }

# machine prints what a cluster could leave behind.
machine() {
	ip -oneline link | awk -F': ' '{ sub(/@.*/, "", $2); print "link", $2 }'
	ip netns list 2> /dev/null | awk '{ print "netns", $1 }'
	awk '{ print "mount", $2, $3 }' /proc/mounts | sort
	find /sys/fs/bpf -mindepth 1 2> /dev/null | sed 's/^/bpf /'
	{ iptables-save || true; } 2> /dev/null | grep -v '^#' | sed 's/\[[0-9:]*\]//; s/^/iptables /'
	ps -eo comm= | awk '/^(dockerd|containerd|kubelet|cilium|etcd|kube-)/ { print "process", $1 }' | sort | uniq -c
}

if [[ -n ${E2E_KUBECONFIG:-} ]]; then
	labels=${LABELS:-smoke}
	E2E_KUBECONFIG=$(realpath "$E2E_KUBECONFIG")
	export E2E_KUBECONFIG
elif mapfile -t parts < <(hack/parts.sh --list | awk '{ print $1 }') && hack/parts.sh --cached "${parts[@]}" > /dev/null 2>&1; then
	labels=${LABELS:-smoke || ci}
else
	labels=${LABELS:-smoke}
	say "third-party binaries will be built from source, or released images pulled: the first time takes up to an hour"
fi
arguments=(-ginkgo.v -ginkgo.no-color -ginkgo.fail-on-empty "-ginkgo.label-filter=$labels")
[[ -z ${FOCUS:-} ]] || arguments+=("-ginkgo.focus=$FOCUS")

if [[ -z ${E2E_KUBECONFIG:-} ]]; then
	# What has to be built, or pulled, is there before any spec's time runs.
	hack/parts.sh kind kubectl helm > /dev/null
	go run ./kind image
fi
before=$(machine || true)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "specs: $labels"
status=0
trap : INT TERM # the specs clean up after themselves first
go test -tags e2e -count=1 -timeout 0 -v ./e2e -ginkgo.timeout=4h "${arguments[@]}" > >(
	trap '' INT TERM # and are heard until then
	tee "$log" | grep --line-buffered -E '^(•|S |figure:|ok|FAIL|---|(passed|failed|timedout|panicked|interrupted) |[0-9]+ passed)|\[(FAILED|TIMEDOUT|PANICKED)\]|^  (kind|parts|image):'
) 2>&1 || status=$?
wait
if [[ $status -ne 0 ]]; then
	tail -n 150 "$log" >&2
	artifacts=${E2E_ARTIFACTS:-${TMPDIR:-/tmp}/holdfast-e2e}
	mkdir -p "$artifacts"
	cp "$log" "$artifacts/log"
	say "all that was said is in $artifacts/log"
	exit "$status"
fi
after=$(machine || true)
if [[ -z ${E2E_KUBECONFIG:-} && $before != "$after" ]]; then
	say "the machine is not as it was:"
	diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") >&2 || true
	exit 1
fi
if [[ -n ${NOSKIP:-} ]] && grep -qE '^S \[SKIPPED\]' "$log"; then
	say "specs were skipped:"
	grep -A1 -E '^S \[SKIPPED\]' "$log" >&2
	exit 1
fi
