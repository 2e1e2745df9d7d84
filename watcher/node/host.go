package node

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/holdfast-cni/holdfast/chaining"
)

// The runtimes whose ways are known.
const (
	Containerd = "containerd"
	CRIO       = "crio"
)

const (
	defaultConfDir = "/etc/cni/net.d"
	defaultBinDir  = "/opt/cni/bin"
)

// Host is where a node's runtime looks, and why that is thought.
type Host struct {
	Runtime, RuntimeWhy string
	ConfDir, ConfDirWhy string
	BinDirs             []string
	// Network is the only one that the runtime uses, if it is told so.
	Network string
	// Notes are what could not be read.
	Notes []string
}

// knownConfDirs are looked at where no runtime's configuration tells: k3s, microk8s, OpenShift, then everybody else,
// RKE2 and GKE among them.
var knownConfDirs = []string{
	"/var/lib/rancher/k3s/agent/etc/cni/net.d",
	"/var/snap/microk8s/current/args/cni-network",
	openshiftConfDir,
	defaultConfDir,
}

const openshiftConfDir = "/etc/kubernetes/cni/net.d"

// knownBinDirs, likewise: k3s, microk8s, OpenShift, GKE, everybody else, CRI-O as packaged.
var knownBinDirs = []string{
	"/var/lib/rancher/k3s/data/cni",
	"/var/lib/rancher/k3s/data/current/bin",
	"/var/snap/microk8s/current/opt/cni/bin",
	"/var/lib/cni/bin",
	"/home/kubernetes/bin",
	defaultBinDir,
	"/usr/libexec/cni",
}

// FindHost reads the runtime's own configuration where it is under the root, and else looks at the known places. What
// the options say wins. An error is about an option.
func FindHost(fsys fs.FS, o Options) (Host, error) {
	s := settings{fsys: fsys}
	h := Host{Runtime: o.Runtime, RuntimeWhy: "--runtime"}
	containerd, crio := s.containerd(), s.crio()
	if h.Runtime == "" {
		h.Runtime, h.RuntimeWhy = s.runtime(containerd, crio)
	}
	found := containerd
	if h.Runtime == CRIO {
		found = crio
	}
	h.Network, h.BinDirs, h.Notes = found.network, found.binDirs, s.notes
	if o.Answer != nil {
		o.Answer.host(&h)
	}
	switch {
	case o.ConfDir != "":
		h.ConfDir, h.ConfDirWhy = path.Join("/", o.ConfDir), "--conf-dir"
		if !exists(fsys, h.ConfDir) {
			return h, fmt.Errorf("--conf-dir %s: no such directory under the root; give it as the node sees it", o.ConfDir)
		}
	case h.ConfDir != "": // the runtime said so
	case found.confDir != "":
		h.ConfDir, h.ConfDirWhy = found.confDir, found.file
	case found.file != "":
		h.ConfDir, h.ConfDirWhy = defaultConfDir, "the default, "+found.file+" names none"
	default:
		h.ConfDir, h.ConfDirWhy = s.knownConfDir()
		if h.ConfDir == openshiftConfDir && o.Runtime == "" {
			h.Runtime, h.RuntimeWhy = CRIO, "as the directory is OpenShift's"
		}
	}
	if len(h.BinDirs) == 0 {
		for _, dir := range knownBinDirs {
			if exists(fsys, dir) {
				h.BinDirs = append(h.BinDirs, dir)
			}
		}
	}
	return h, nil
}

// knownConfDir is the first known one with configuration in it, else the first there is.
func (s *settings) knownConfDir() (dir, why string) {
	for _, dir := range knownConfDirs {
		if !exists(s.fsys, dir) {
			continue
		}
		if d, err := chaining.ReadDirectory(s.fsys, inside(dir)); err == nil && len(d.Files) > 0 {
			return dir, "the first known directory with configuration in it"
		}
	}
	for _, dir := range knownConfDirs {
		if exists(s.fsys, dir) {
			return dir, "the first known directory that exists"
		}
	}
	return defaultConfDir, "the default"
}

// binary says where a plugin's executable is; empty where it is in no bin directory.
func (h Host) binary(fsys fs.FS, pluginType string) string {
	for _, dir := range h.BinDirs {
		if file := path.Join(dir, pluginType); exists(fsys, file) {
			return file
		}
	}
	return ""
}

// executables are the names in the bin directories; nil where none is under the root.
func (h Host) executables(fsys fs.FS) map[string]bool {
	var all map[string]bool
	for _, dir := range h.BinDirs {
		at, err := chaining.Follow(fsys, inside(dir))
		if err != nil {
			continue
		}
		entries, err := fs.ReadDir(fsys, at)
		if err != nil {
			continue
		}
		if all == nil {
			all = map[string]bool{}
		}
		for _, e := range entries {
			if exists(fsys, path.Join(dir, e.Name())) { // a link to nowhere is none
				all[e.Name()] = true
			}
		}
	}
	return all
}

func exists(fsys fs.FS, name string) bool {
	at, err := chaining.Follow(fsys, inside(name))
	if err != nil {
		return false
	}
	_, err = fs.Stat(fsys, at)
	return err == nil
}

// inside is an absolute path as one of the root's own file system.
func inside(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}
