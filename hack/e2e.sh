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
arguments=(-test.v -test.timeout 0 -ginkgo.timeout=4h -ginkgo.v -ginkgo.no-color)
[[ -z ${FOCUS:-} ]] || arguments+=("-ginkgo.focus=$FOCUS")

if [[ -z ${E2E_KUBECONFIG:-} ]]; then
	# What has to be built, or pulled, is there before any spec's time runs.
	hack/parts.sh kind kubectl helm > /dev/null
	go run ./kind image
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -tags e2e -c -o "$work/e2e.test" ./e2e
before=$(machine || true)
say "specs: $labels"

# lane NAME LABELS runs specs. Two lanes run at once, each with a cluster at a time: most of a spec is waiting.
lane() {
	local status=0
	(cd e2e && exec "$work/e2e.test" "${arguments[@]}" "-ginkgo.label-filter=($labels) && $2") > >(
		trap '' INT TERM # it is heard until the specs have cleaned up after themselves
		tee "$work/$1.log" | grep --line-buffered -E '^(•|S |figure:|ok|FAIL|---|(passed|failed|timedout|panicked|interrupted) |[0-9]+ passed)|\[(FAILED|TIMEDOUT|PANICKED)\]|^  (kind|parts|image):'
	) 2>&1 || status=$?
	wait # for what it said
	return "$status"
}
status=0
trap : INT TERM
lane cilium cilium & cilium=$!
lane other '!cilium' & other=$!
for lane in "$cilium" "$other"; do
	until wait "$lane"; do
		ended=$?
		kill -0 "$lane" 2> /dev/null && continue # a signal ended the wait
		status=$ended
		break
	done
done
if [[ $status -ne 0 ]]; then
	tail -n 150 "$work"/*.log >&2
	artifacts=${E2E_ARTIFACTS:-${TMPDIR:-/tmp}/holdfast-e2e}
	mkdir -p "$artifacts"
	cp "$work"/*.log "$artifacts"
	say "all that was said is in $artifacts/cilium.log and other.log"
	exit "$status"
fi
if ! grep -qE '^• ' "$work"/*.log; then
	say "no spec was run: none has these labels and this name"
	exit 1
fi
after=$(machine || true)
if [[ -z ${E2E_KUBECONFIG:-} && $before != "$after" ]]; then
	say "the machine is not as it was:"
	diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") >&2 || true
	exit 1
fi
if [[ -n ${NOSKIP:-} ]] && grep -qE '^S \[SKIPPED\]' "$work"/*.log; then
	say "specs were skipped:"
	grep -h -A1 -E '^S \[SKIPPED\]' "$work"/*.log >&2
	exit 1
fi
