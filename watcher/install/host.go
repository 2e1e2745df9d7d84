package install

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

// hostPath is a path of the node's, without links, as this process sees it.
func (l *loop) hostPath(name string) (string, error) {
	at, err := node.Resolve(l.fsys, name)
	if err != nil {
		return "", err
	}
	return filepath.Join(l.options.HostRoot, at), nil
}

// existing is the nearest directory above a path that is there.
func (l *loop) existing(name string) (string, error) {
	for {
		name = path.Dir(name)
		at, err := l.hostPath(name)
		if err == nil || name == "/" {
			return at, err
		}
	}
}

// sweep removes what an earlier life may have left half-written, once.
func (l *loop) sweep(host node.Host) {
	l.swept = true
	for _, dir := range append([]string{host.ConfDir}, host.BinDirs...) {
		at, err := l.hostPath(dir)
		if err != nil {
			continue // it is not there
		}
		if err := store.Sweep(at); err != nil {
			l.teller.failed("temporary files of an earlier run cannot be removed", err)
		}
	}
}

// directories are the sub-directories, which may hold drop-ins.
func directories(dir string) []string {
	const most = 64 // watches are dear
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && len(all) < most {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all
}

// cached reports whether a result that the runtime keeps of a running pod names the plugin; true where that cannot be told. A
// runtime that goes by it runs the plugin when the pod ends (libcni v1.3.1, api.go: CacheDir, getCachedConfig).
func cached(fsys fs.FS, kind string) bool {
	at, err := node.Resolve(fsys, "/var/lib/cni/results")
	if err != nil {
		_, err := node.Resolve(fsys, "/usr") // where only parts of the node are mounted, it is not among them
		return err != nil
	}
	entries, err := fs.ReadDir(fsys, at)
	if err != nil {
		return true
	}
	for _, e := range entries {
		data, err := fs.ReadFile(fsys, path.Join(at, e.Name()))
		if err == nil && names(data, kind) {
			return true
		}
	}
	return false
}

// names reports whether a cached result was made by a list with the plugin; true where it cannot be read.
func names(data []byte, kind string) bool {
	var result struct {
		Config []byte `json:"config"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return true
	}
	list, err := chaining.Parse(result.Config)
	if err != nil {
		return bytes.Contains(result.Config, []byte(kind))
	}
	return len(list.Find(kind)) > 0
}
