// Package holdfast holds nothing but the test of which package may import which.
package holdfast

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-cni/holdfast/"

// edges are the imports between the project's own packages: they point one way. A folder stands for all in it. What is not
// listed is not allowed.
var edges = map[string][]string{
	"chaining":         {},
	"chaining/store":   {"chaining"},
	"configmap":        {"chaining"},
	"lock":             {},
	"agent":            {"agent", "lock", "watcher"},
	"agent/adopt":      {},
	"agent/contract":   {"lock"},
	"plugin":           {"lock", "agent/adopt", "plugin/pass"},
	"plugin/pass":      {},
	"watcher":          {"watcher", "configmap", "chaining"},
	"watcher/node":     {"watcher", "configmap", "chaining"},
	"helm":             {},
	"cmd/holdfast":     {"watcher", "agent", "configmap", "chaining", "plugin"},
	"cmd/holdfast-cni": {"plugin", "cmd/holdfast-cni/first"},
	"e2e":              {"e2e", "watcher", "configmap", "chaining", "plugin", "agent", "lock", "helm"},
	"kind":             {"kind"},
}

// barred are modules that a package must not depend on, however far away.
var barred = map[string][]string{
	// The plugin pays for what it links at every start: the standard library alone.
	"agent/adopt":      {"github.com", "golang.org", "k8s.io", "sigs.k8s.io", "net/http"},
	"agent/contract":   {"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "github.com/cilium"},
	"chaining":         {"k8s.io", "sigs.k8s.io", "github.com/cilium"},
	"lock":             {"k8s.io", "sigs.k8s.io", "github.com/cilium", "net/http"},
	"plugin":           {"k8s.io", "sigs.k8s.io", "github.com/cilium"},
	"plugin/pass":      {"github.com", "golang.org", "k8s.io", "sigs.k8s.io", "net", "regexp", "crypto", "log"},
	"watcher":          {"helm.sh", "github.com/google/nftables"},
	"cmd":              {"helm.sh", "github.com/onsi"},
	"cmd/holdfast-cni": {"helm.sh", "github.com/onsi", "k8s.io", "sigs.k8s.io", "github.com/cilium", "net/http"},
	"kind":             {"k8s.io", "sigs.k8s.io", "github.com/cilium"},
}

// barredDirect are packages that a package must not import itself. Cilium's types bring client-go along, but configmap knows
// nothing of clients, and neither it nor chaining of files.
var barredDirect = map[string][]string{
	"chaining":       {"os", "net"},
	"chaining/store": {"net"},
	"configmap":      {"os", "net", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
	// The host's files come in as an fs.FS.
	"watcher/node": {"os", "net", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "watcher/cluster"},
}

type listed struct {
	ImportPath    string
	Imports, Deps []string
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if path == strings.TrimSuffix(module, "/") {
			continue // this package
		}
		folder := longest(edges, path)
		if folder == "" {
			t.Errorf("%s: has no line in edges", path)
		}
		for _, imported := range p.Imports {
			own, ours := strings.CutPrefix(imported, module)
			if ours && !slices.ContainsFunc(edges[folder], func(to string) bool { return within(own, to) }) {
				t.Errorf("%s imports %s", path, own)
			}
		}
		for _, dep := range p.Deps {
			if bars(barred, path, dep) {
				t.Errorf("%s depends on %s", path, dep)
			}
		}
		for _, imported := range p.Imports {
			if bars(barredDirect, path, imported) {
				t.Errorf("%s imports %s", path, imported)
			}
		}
	}
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// bars reports whether the folder that the path is in must not use the package.
func bars(from map[string][]string, path, used string) bool {
	return slices.ContainsFunc(from[longest(from, path)], func(bad string) bool {
		return within(used, bad)
	})
}

// longest is the key that the path is within, the most exact one.
func longest(m map[string][]string, path string) string {
	found := ""
	for folder := range m {
		if within(path, folder) && len(folder) > len(found) {
			found = folder
		}
	}
	return found
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
