#!/usr/bin/env bash
# Builds third-party binaries from source, each once per version, into the cache folder.
#
#   hack/parts.sh NAME...          build what is missing; print the path of each
#   hack/parts.sh --cached NAME... the same, but fail at once instead of building
#   hack/parts.sh --list           print every name and version
#
# Versions are pinned in kind/parts/<folder>/go.mod: modules of their own, nothing of them enters the product.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/parts
export GOWORK=off

names=(
	kube-apiserver etcd kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl
	runc containerd containerd-shim-runc-v2 ctr crictl kind coredns helm
	bridge host-local loopback portmap ptp tuning
	cilium-agent cilium-cni cilium-dbg cilium-health cilium-health-responder cilium-mount cilium-operator-generic cilium-sysctlfix
)

say() { printf 'parts: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# recipe NAME sets how NAME is built (folder, module, package, cgo, tags, ldflags), which version it is, and how it is asked
# for that (probe): its answer must contain $expect.
recipe() {
	local stamp=''
	cgo=0 tags='' probe=(--version) expect=''
	case $1 in
	kube-* | kubelet) from kubernetes k8s.io/kubernetes "cmd/$1" ;;
	kubeadm) from kubernetes k8s.io/kubernetes cmd/kubeadm && probe=(version) ;;
	kubectl) from kubernetes k8s.io/kubernetes cmd/kubectl && probe=(version --client) ;;
	etcd) from etcd go.etcd.io/etcd/server/v3 ;;
	runc) from runc github.com/opencontainers/runc && cgo=1 tags=seccomp ;; # needs gcc, pkg-config and libseccomp-dev
	containerd | ctr)
		from containerd github.com/containerd/containerd/v2 "cmd/$1"
		tags='no_btrfs no_devmapper no_zfs' stamp="$module/version.Version=$version"
		;;
	containerd-shim-runc-v2)
		from containerd github.com/containerd/containerd/v2 "cmd/$1"
		probe=(-v) stamp="$module/version.Version=$version"
		;;
	crictl) from crictl sigs.k8s.io/cri-tools cmd/crictl && stamp="$module/pkg/version.Version=$version" ;;
	kind) from kind sigs.k8s.io/kind ;;
	coredns) from coredns github.com/coredns/coredns && package=. probe=(-version) ;;
	helm) from helm helm.sh/helm/v4 cmd/helm && probe=(version) stamp="$module/internal/version.version=$version" ;;
	bridge | loopback | ptp) cni_plugin "main/$1" ;;
	host-local) cni_plugin "ipam/$1" ;;
	portmap | tuning) cni_plugin "meta/$1" ;;
	cilium-agent) cilium daemon ;;
	cilium-cni) cilium plugins/cilium-cni && probe=() expect=CNI ;;
	cilium-dbg) cilium cilium-dbg && probe=(version) ;;
	cilium-health) cilium cilium-health && probe=(--help) expect=health ;;
	cilium-health-responder) cilium cilium-health/responder && probe=(--help) expect=pidfile ;;
	cilium-mount) cilium tools/mount && probe=() expect=usage ;;
	cilium-operator-generic) cilium operator && tags=ipam_provider_operator ;;
	cilium-sysctlfix) cilium tools/sysctlfix && probe=(--help) expect=sysctl ;;
	*) die "unknown part \"$1\": hack/parts.sh --list shows those there are" ;;
	esac

	expect=${expect:-${version#v}}
	ldflags='-s -w'
	[[ $stamp ]] && ldflags+=" -X '$stamp'" # quoted, as Cilium's has spaces
	if [[ $folder == kubernetes ]]; then
		local major minor
		stamp=k8s.io/component-base/version
		IFS=. read -r major minor _ <<<"${version#v}"
		ldflags+=" -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
	fi
}

# from FOLDER MODULE [PATH] says where a part comes from; the version is the one that FOLDER's go.mod pins.
from() {
	folder=$1 module=$2 package=$2${3:+/$3}
	version=$(awk -v module="$2" '$1 == "require" { $1 = ""; $0 = $0 } $1 == module { print $2; exit }' \
		"$root/kind/parts/$1/go.mod")
	[[ $version ]] || die "kind/parts/$1/go.mod pins no version of $2"
}

cni_plugin() {
	from cni-plugins github.com/containernetworking/plugins "plugins/$1"
	probe=() stamp="$module/pkg/utils/buildversion.BuildVersion=$version"
}

# Cilium expects a commit and a date in its version.
cilium() {
	from cilium github.com/cilium/cilium "$1"
	stamp="$module/pkg/version.ciliumVersion=${version#v} source 1970-01-01T00:00:00Z"
}

# follow NAME TOTAL copies the lines of `go build -v` to the log and reports every ten seconds.
follow() {
	local compiled=0 next=$((SECONDS + 10)) began=$SECONDS status line
	while :; do
		status=0
		IFS= read -r -t 10 line || status=$?
		if ((status == 0)); then
			printf '%s\n' "$line"
			compiled=$((compiled + 1))
		elif ((status <= 128)); then
			break # end of file; above 128 it is the time-out
		fi
		if ((SECONDS >= next)); then
			say "$1: $compiled of at most $2 packages compiled, $((SECONDS - began)) s"
			next=$((SECONDS + 10))
		fi
	done >>"$work/log"
}

# build NAME leaves the checked binary at $cache/NAME-VERSION/NAME, or nothing at all.
build() {
	local name=$1 total began=$SECONDS answer
	local flags=(-C "$root/kind/parts/$folder" -tags "$tags")
	rm -rf "$cache/.$name".?????? # of a run that was killed
	work=$(mktemp -d "$cache/.$name.XXXXXX")
	say "$name $version: building, which takes minutes the first time"

	export CGO_ENABLED=$cgo
	if ! total=$(go list "${flags[@]}" -deps "$package" 2>"$work/log" | wc -l) ||
		! go build "${flags[@]}" -v -trimpath -ldflags "$ldflags" -o "$work/$name" "$package" 2>&1 | follow "$name $version" "$total"; then
		tail -n 20 "$work/log" >&2
		die "$name $version: the build failed, as shown above"
	fi
	answer=$("$work/$name" "${probe[@]}" </dev/null 2>&1) || true
	[[ $answer == *"$expect"* ]] || die "$name $version: its answer to \"${probe[*]}\" lacks $expect: $answer"

	rm -f "$work/log"
	chmod 755 "$work"
	mv -T "$work" "$cache/$name-$version"
	work=''
	say "$name $version: built in $((SECONDS - began)) s"
}

# part NAME prints the path of NAME, built first if need be.
part() {
	local path=$cache/$1-$version/$1
	if [[ ! -x $path ]]; then
		[[ $cached_only ]] && return 1
		mkdir -p "$cache"
		exec 9>"$cache/.$1.lock"
		flock -n 9 || { say "$1 $version: another run is building it, waiting"; flock 9; }
		[[ -x $path ]] || build "$1" 9>&-
		exec 9>&-
	fi
	printf '%s\n' "$path"
}

work='' cached_only=''
trap 'rm -rf ${work:+"$work"}' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case ${1:-} in
--list)
	for name in "${names[@]}"; do
		recipe "$name"
		printf '%s %s\n' "$name" "$version"
	done
	exit
	;;
--cached) cached_only=yes && shift ;;
-* | '') die "usage: hack/parts.sh [--cached] NAME... | --list" ;;
esac

for name in "$@"; do recipe "$name"; done # a wrong name stops before the first build
for name in "$@"; do
	recipe "$name"
	part "$name"
done
