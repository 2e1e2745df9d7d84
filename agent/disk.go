package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxMemory is more than any file of the node's memory can be: 10,000 namespaces take 1 MB.
const maxMemory = 16 << 20

// readWhole reads a file of the node's memory. One that is longer than any can be is an error, and never read in part.
func readWhole(path string) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err = io.ReadAll(io.LimitReader(file, maxMemory+1))
	if err == nil && len(data) > maxMemory {
		return nil, fmt.Errorf("read %s: longer than %d bytes", path, maxMemory)
	}
	return data, err
}

// writeSynced replaces a file in one step that outlives a loss of power.
func writeSynced(folder, name string, data []byte) error {
	if err := replaceFile(folder, name, data); err != nil {
		return err
	}
	return syncFolder(folder)
}

// replaceFile replaces a file in one step, which outlives a loss of power once the folder is synced.
func replaceFile(folder, name string, data []byte) error {
	file, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
