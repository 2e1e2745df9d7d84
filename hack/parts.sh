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

names=(kube-apiserver etcd)

say() { printf 'parts: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# recipe NAME sets how NAME is built (folder, package, cgo, tags, ldflags), which version it is, and how it is
# asked for its version (probe): its answer must contain $expect.
recipe() {
	local module
	cgo=0 tags='' ldflags='-s -w' probe=(--version) expect=''
	case $1 in
	kube-apiserver)
		folder=kubernetes module=k8s.io/kubernetes package=$module/cmd/$1
		;;
	etcd)
		folder=etcd module=go.etcd.io/etcd/server/v3 package=$module
		;;
	*) die "unknown part \"$1\": hack/parts.sh --list shows those there are" ;;
	esac

	version=$(awk -v module="$module" '$1 == "require" { $1 = ""; $0 = $0 } $1 == module { print $2; exit }' \
		"$root/kind/parts/$folder/go.mod")
	[[ $version ]] || die "kind/parts/$folder/go.mod pins no version of $module"
	expect=${expect:-${version#v}}

	if [[ $folder == kubernetes ]]; then
		local stamp=k8s.io/component-base/version major minor
		IFS=. read -r major minor _ <<<"${version#v}"
		ldflags+=" -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
	fi
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
