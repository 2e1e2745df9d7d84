package crash

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them, so it stays the oracle.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
)

// Read is what is in a directory, and below.
func Read(dir string) (Tree, error) {
	t := Tree{}
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		f := File{Mode: info.Mode()}
		if info.Mode().IsRegular() {
			f.Data, err = os.ReadFile(at)
		}
		t[name] = f
		return err
	})
	return t, err
}

// Write makes a directory hold the tree, and nothing else.
func (t Tree) Write(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	for name, f := range t {
		at := filepath.Join(dir, name)
		if f.Mode.IsDir() {
			err = os.MkdirAll(at, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
			err = os.WriteFile(at, f.Data, f.Mode.Perm())
		}
		if err == nil {
			err = os.Chmod(at, f.Mode.Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Under is the part of the tree below a path, which it is relative to then.
func (t Tree) Under(dir string) Tree {
	part := Tree{}
	for name, f := range t {
		if below, found := strings.CutPrefix(name, dir+"/"); found {
			part[below] = f
		}
	}
	return part
}

// Loads is what libcni reads from a configuration directory, as go-cni has it do (loadFromConfDir): the first file by name, with
// its drop-ins; empty where there is none. An error is the runtime's: the node would have no network.
func Loads(dir string) (string, error) {
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil || len(files) == 0 {
		return "", err
	}
	slices.Sort(files)
	var list *libcni.NetworkConfigList
	if filepath.Ext(files[0]) == ".conflist" {
		list, err = libcni.ConfListFromFile(files[0])
	} else {
		var conf *libcni.PluginConfig
		if conf, err = libcni.ConfFromFile(files[0]); err == nil {
			list, err = libcni.ConfListFromConf(conf)
		}
	}
	if err != nil {
		return "", err
	}
	said := list.Name + " " + list.CNIVersion
	for _, p := range list.Plugins {
		text, err := Compact(p.Bytes)
		if err != nil {
			return "", err
		}
		said += "\n" + text
	}
	return said, nil
}

// Compact leaves out white space, which a runtime does not keep.
func Compact(text []byte) (string, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Judge knows what a directory may hold between two states: under each name what the old or the new one has there, whole, and
// what libcni loads is what it loads of the old or of the new one.
type Judge struct {
	Old, New       Tree
	oldLoads, load string
}

// NewJudge takes both states of a configuration directory. It needs an empty directory to lay them out in.
func NewJudge(old, now Tree, scratch string) (*Judge, error) {
	j := &Judge{Old: old, New: now}
	for _, s := range []struct {
		tree Tree
		to   *string
	}{{old, &j.oldLoads}, {now, &j.load}} {
		if err := s.tree.Write(scratch); err != nil {
			return nil, err
		}
		said, err := Loads(scratch)
		if err != nil {
			return nil, fmt.Errorf("libcni: %w", err)
		}
		*s.to = said
	}
	return j, nil
}

// Directory judges what is in a directory on disk.
func (j *Judge) Directory(dir string) error {
	have, err := Read(dir)
	if err != nil {
		return err
	}
	if err := Whole(j.Old, j.New, have); err != nil {
		return err
	}
	said, err := Loads(dir)
	if err != nil {
		return fmt.Errorf("libcni: %w", err)
	}
	if said != j.oldLoads && said != j.load {
		return fmt.Errorf("libcni loads neither what it did nor what it will:\n%s", said)
	}
	return nil
}

// Whole holds every name to what the old or the new tree has under it. What only one has may be missing; what both have may
// not. Directories that neither has are refused, and so are files but temporary ones.
func Whole(old, now, have Tree) error {
	for name, f := range have {
		was, wasThere := old[name]
		is, isThere := now[name]
		switch {
		case wasThere && same(f, was) || isThere && same(f, is):
		case !f.Mode.IsDir() && temporary(path.Base(name)):
		case wasThere || isThere:
			return fmt.Errorf("%s is neither the old nor the new one: %s, %d bytes", name, f.Mode, len(f.Data))
		default:
			return fmt.Errorf("%s: neither state has it", name)
		}
	}
	for name := range old {
		if _, stays := now[name]; stays {
			if _, there := have[name]; !there {
				return fmt.Errorf("%s is gone", name)
			}
		}
	}
	return nil
}

// same does not ask for a directory's mode, which is set after it was made.
func same(a, b File) bool {
	return a.Mode.Type() == b.Mode.Type() && (a.Mode.IsDir() || a.Mode == b.Mode && bytes.Equal(a.Data, b.Data))
}

// Lasting is the tree without what is temporary.
func (t Tree) Lasting() Tree {
	t = maps.Clone(t)
	maps.DeleteFunc(t, func(name string, f File) bool { return !f.Mode.IsDir() && temporary(path.Base(name)) })
	return t
}

// temporary names are Holdfast's, and none of the kinds that a runtime looks at.
func temporary(name string) bool {
	return strings.HasPrefix(name, ".holdfast-") && !slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(name))
}
