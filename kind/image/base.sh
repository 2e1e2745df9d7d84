#!/usr/bin/env bash
# base.sh BASE CLANG: writes two layers as tar files.
#
#   BASE   Debian with systemd and the network tools: the bottom of the node, kube-proxy and Cilium images
#   CLANG  clang and ipset without what surrounds them in Debian: Cilium's agent compiles its eBPF programs with it
#
# Run in a mount namespace of its own, as root.
set -euo pipefail
base=$1 clang=$2

root=$(mktemp -d "$base.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$base.part" "$clang.part"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

packages=(
	systemd systemd-sysv
	bash ca-certificates curl hostname jq procps util-linux mount kmod e2fsprogs pigz libseccomp2
	iproute2 iptables nftables conntrack ethtool iputils-ping
)
debootstrap --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" bookworm "$root" >&2

# What follows the installation in kind's own image, images/base/Dockerfile: no services but those of a node.
cd "$root"
find usr/lib/systemd/system/sysinit.target.wants -name systemd-tmpfiles-setup.service -delete
rm -f usr/lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* etc/systemd/system/*.wants/*
rm -f usr/lib/systemd/system/sockets.target.wants/*{udev,initctl}*
echo ReadKMsg=no >>etc/systemd/journald.conf

# Before the clean-up below, as it needs the package lists. Unpacked, not installed: its dependencies are compilers and
# headers for C.
chroot . apt-get update -q >&2
chroot . sh -e >&2 <<-'IN'
	mkdir /clang.d && cd /clang.d
	apt-get -q -o APT::Sandbox::User=root download clang-19 libclang-common-19-dev libclang-cpp19 libllvm19 \
		libbsd0 libedit2 libicu72 libipset13 libmd0 libxml2 libz3-4 ipset
	for package in *.deb; do dpkg-deb --extract "$package" /clang; done
	cd /clang
	rm -rf usr/share usr/lib/llvm-19/lib/clang/19/lib /clang.d
	find usr/lib/llvm-19/bin -type f ! -name clang -delete
	ln -s clang-19 usr/bin/clang
IN
archive() { tar --create --sort=name --numeric-owner --mtime=@0 "$@"; }
archive --directory clang --file "$clang.part" .
rm -rf clang

rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* usr/share/{doc,info,locale,man,zoneinfo}
rm -f etc/hostname
: >etc/resolv.conf
: >etc/machine-id
archive --file "$base.part" --exclude=./dev/\* .
mv "$clang.part" "$clang"
mv "$base.part" "$base"
