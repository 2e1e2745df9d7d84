package node

import (
	"io/fs"
	"regexp"

	"github.com/holdfast-cni/holdfast/chaining"
)

// knownSockets are looked at where the kubelet's own configuration names none: k3s and RKE2, microk8s, CRI-O, cri-dockerd,
// everybody else.
var knownSockets = []string{
	"/run/k3s/containerd/containerd.sock",
	"/var/snap/microk8s/common/run/containerd.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
	"/run/containerd/containerd.sock",
}

// kubeletFiles may name the runtime's socket (kubeadm, the kubelet's own configuration).
var kubeletFiles = []string{"/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf"}

var endpoint = regexp.MustCompile(`(?:container-runtime-endpoint=|containerRuntimeEndpoint:)["' ]*(?:unix://)?(/[^\s"',]+)`)

// FindSocket says where the kubelet's runtime answers, as the node sees it, and why that is thought; empty where there is
// no socket.
func FindSocket(fsys fs.FS) (socket, why string) {
	s := settings{fsys: fsys}
	for _, file := range kubeletFiles {
		data, _ := s.content(file)
		if found := endpoint.FindSubmatch(data); found != nil {
			return string(found[1]), file
		}
	}
	for _, socket := range knownSockets {
		if exists(fsys, socket) {
			return socket, "the first known socket that is there"
		}
	}
	return "", "no known socket is there"
}

// Resolve is a path as the node sees it without its links, relative to the root that fsys stands for.
func Resolve(fsys fs.FS, name string) (string, error) { return chaining.Follow(fsys, inside(name)) }
