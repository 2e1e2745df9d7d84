package node

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/holdfast-cni/holdfast/chaining"
)

// settings reads runtimes' own configuration files.
type settings struct {
	fsys  fs.FS
	notes []string
}

// found is what a runtime is told about CNI, and by which file; the file is empty where there is none.
type found struct {
	file, confDir, network string
	binDirs                []string
}

// containerdFiles: a distribution's own containerd first, because a second one may be installed beside it.
var containerdFiles = []string{
	"/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
	"/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
	"/var/snap/microk8s/current/args/containerd.toml",
	"/etc/containerd/config.toml",
}

// containerdPlugins are the sections that hold the CNI settings, by containerd's configuration version: 3, 2, 1.
var containerdPlugins = []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri"}

func (s *settings) containerd() found {
	for _, file := range containerdFiles {
		config := s.read(file)
		if config == nil {
			continue
		}
		f := found{file: file}
		s.takeCNI(&f, file, config)
		for _, imported := range s.imports(file, config) {
			s.takeCNI(&f, imported, s.read(imported))
		}
		return f
	}
	return found{}
}

// takeCNI puts what one of containerd's files says over what earlier ones said.
func (s *settings) takeCNI(f *found, file string, config map[string]any) {
	for _, plugin := range containerdPlugins {
		cni := table(config, "plugins", plugin, "cni")
		if dir, ok := cni["conf_dir"].(string); ok && dir != "" {
			f.file, f.confDir = file, absolute(dir)
		}
		dirs := texts(cni["bin_dirs"])
		if dir, ok := cni["bin_dir"].(string); ok && dir != "" {
			dirs = append(dirs, absolute(dir))
		}
		if len(dirs) > 0 {
			f.binDirs = dirs
		}
		if most, ok := cni["max_conf_num"].(int64); ok && most != 1 {
			s.notes = append(s.notes, fmt.Sprintf("%s: max_conf_num is %d: pods get more networks than the one judged here", file, most))
		}
	}
}

// imports are the files that a configuration of containerd's takes in, one level deep: patterns, relative to its own
// directory (containerd v2.4.2, cmd/containerd/server/config, resolveImports).
func (s *settings) imports(file string, config map[string]any) []string {
	var all []string
	patterns, _ := config["imports"].([]any)
	for _, p := range patterns {
		pattern, _ := p.(string)
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(file), pattern)
		}
		dir, name := path.Split(pattern)
		at, err := chaining.Follow(s.fsys, inside(dir))
		if err != nil {
			continue
		}
		entries, _ := fs.ReadDir(s.fsys, at)
		for _, e := range entries {
			if ok, _ := path.Match(name, e.Name()); ok {
				all = append(all, path.Join(dir, e.Name()))
			}
		}
	}
	return all
}

// crio reads crio.conf and then its drop-ins in order, the later over the earlier (CRI-O, crio.conf.d(5)).
func (s *settings) crio() found {
	files := []string{"/etc/crio/crio.conf"}
	if at, err := chaining.Follow(s.fsys, "etc/crio/crio.conf.d"); err == nil {
		entries, _ := fs.ReadDir(s.fsys, at)
		for _, e := range entries {
			files = append(files, path.Join("/etc/crio/crio.conf.d", e.Name()))
		}
	}
	var f found
	for _, file := range files {
		config := s.read(file)
		if config == nil {
			continue
		}
		network := table(config, "crio", "network")
		if f.file == "" || len(network) > 0 {
			f.file = file
		}
		if dir, ok := network["network_dir"].(string); ok && dir != "" {
			f.confDir = absolute(dir)
		}
		if name, ok := network["cni_default_network"].(string); ok {
			f.network = name
		}
		if dirs := texts(network["plugin_dirs"]); len(dirs) > 0 {
			f.binDirs = dirs
		}
	}
	return f
}

// runtime tells which of the two the kubelet talks to.
func (s *settings) runtime(containerd, crio found) (name, why string) {
	for _, file := range kubeletFiles {
		data, _ := s.content(file)
		switch {
		case bytes.Contains(data, []byte("crio.sock")):
			return CRIO, file
		case bytes.Contains(data, []byte("containerd.sock")):
			return Containerd, file
		}
	}
	switch {
	case containerd.file != "":
		return Containerd, containerd.file
	case crio.file != "":
		return CRIO, crio.file
	}
	return Containerd, "assumed; --runtime says otherwise"
}

// read is a TOML file as tables; nil where there is none or it cannot be used.
func (s *settings) read(file string) map[string]any {
	data, err := s.content(file)
	if data == nil && err == nil {
		return nil
	}
	var config map[string]any
	if err == nil {
		_, err = toml.Decode(string(data), &config)
	}
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		s.notes = append(s.notes, fmt.Sprintf("%s is not used: %s", file, line))
		return nil
	}
	if config == nil {
		config = map[string]any{}
	}
	return config
}

// content is a small regular file; neither data nor an error where there is none.
func (s *settings) content(file string) ([]byte, error) {
	at, err := chaining.Follow(s.fsys, inside(file))
	if err != nil {
		return nil, nil
	}
	info, err := fs.Lstat(s.fsys, at)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	if info.Size() > chaining.MaxSize {
		return nil, fmt.Errorf("%d bytes, at most %d are read", info.Size(), chaining.MaxSize)
	}
	f, err := s.fsys.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, chaining.MaxSize))
	if err != nil {
		return nil, err
	}
	return append([]byte{}, data...), nil
}

func table(config map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		config, _ = config[key].(map[string]any)
	}
	return config
}

func texts(value any) []string {
	var all []string
	items, _ := value.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok && text != "" {
			all = append(all, absolute(text))
		}
	}
	return all
}

// absolute puts in what microk8s' configuration leaves to the snap's environment.
func absolute(dir string) string {
	return path.Clean("/" + strings.ReplaceAll(dir, "${SNAP_DATA}", "/var/snap/microk8s/current"))
}
