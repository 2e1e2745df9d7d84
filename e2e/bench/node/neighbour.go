package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
)

// primary is the list of the node's own network.
const primary = "10-pods.conflist"

// network is its text. The MTU tells one version from the next.
func network(name string, mtu int) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":"bridge","mtu":%d},{"type":"portmap","capabilities":{"portMappings":true}}]}`, name, mtu)
}

// hasMTU reports whether a list is that version; a runtime writes it in its own way.
func hasMTU(list *chaining.List, mtu int) bool {
	var bridge struct{ MTU int }
	return json.Unmarshal(list.Plugins()[0].Bytes(), &bridge) == nil && bridge.MTU == mtu
}

// replace is what every sensible writer does, and no more: nobody sees half a file.
func replace(path, text string) error {
	temp := filepath.Join(filepath.Dir(path), ".neighbour")
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("rename a file: %w", err)
	}
	return nil
}

// careful also makes it last: what any repair has to do.
func careful(path, text string) (err error) {
	dir := filepath.Dir(path)
	file, err := os.Create(filepath.Join(dir, ".neighbour"))
	if err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("rename a file: %w", err)
	}
	directory, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open a directory: %w", err)
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// own is the path of Holdfast's own file.
func (m *machine) own() (string, error) {
	pattern := filepath.Join(m.conf, "*", "99-holdfast.conf")
	if m.strategy == chaining.ByList {
		pattern = filepath.Join(m.conf, "*-holdfast.conflist")
	}
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%s: %d files: %w", pattern, len(found), fs.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// foreign is what a neighbour writes over it: an entry that lets everything through, or a list without one.
func (m *machine) foreign(i int) string {
	if m.strategy == chaining.ByList {
		return network("pods", 1000+i)
	}
	return fmt.Sprintf(`{"type":"holdfast-cni","resolvers":["192.0.2.%d"]}`, i%250)
}

// shown makes the runtime load what was done to a drop-in: it does not watch the directories of those.
func (m *machine) shown() error {
	if m.strategy == chaining.ByList {
		return nil
	}
	return store.Nudge(m.conf)
}
