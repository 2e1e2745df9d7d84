#!/usr/bin/env bash
# Prints a folder that holds kube-apiserver and etcd, for tests against a real API server (envtest).
#
# In this order: $KUBEBUILDER_ASSETS; what an earlier run left in the cache folder; setup-envtest, where it can download;
# else both are built from source, which takes minutes once.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
assets=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/assets
kubernetes=1.36.x setup_envtest=sigs.k8s.io/controller-runtime/tools/setup-envtest@release-0.24

say() { printf 'assets: %s\n' "$*" >&2; }
complete() { [[ -x $1/kube-apiserver && -x $1/etcd ]]; }

# offer FOLDER prints FOLDER and ends the script if both binaries are there.
offer() {
	if complete "$1"; then
		printf '%s\n' "$1"
		exit
	fi
}

# gather PATH... prints a folder with links to these binaries, named after their versions.
gather() {
	local folder='' path
	for path in "$@"; do folder+=${folder:++}$(basename "$(dirname "$path")"); done
	folder=$assets/$folder
	mkdir -p "$folder"
	for path in "$@"; do ln -sfn "$path" "$folder/${path##*/}"; done
	offer "$folder"
}

offer "${KUBEBUILDER_ASSETS:-}"
if built=$("$root/hack/parts.sh" --cached kube-apiserver etcd); then
	mapfile -t paths <<<"$built"
	gather "${paths[@]}"
fi
offer "$assets/downloaded"

say "asking setup-envtest for Kubernetes $kubernetes"
if folder=$(cd / && timeout 20 go run "$setup_envtest" use -p path "$kubernetes" 2>/dev/null) && complete "$folder"; then
	mkdir -p "$assets"
	ln -sfn "$folder" "$assets/downloaded"
	offer "$assets/downloaded"
fi

say "nothing to download; building kube-apiserver and etcd from source"
built=$("$root/hack/parts.sh" kube-apiserver etcd)
mapfile -t paths <<<"$built"
gather "${paths[@]}"
