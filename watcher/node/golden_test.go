package node_test

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them, so it stays the oracle.

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/watcher/node"
)

var update = flag.Bool("update", false, "write the golden files again")

// nodes are copies of nodes' directories. Each has a SOURCE, and may have ARGS: drop-ins=false.
const nodes = "../../e2e/testdata/nodes"

func TestDoctorExplainsEveryNodeDirectory_G1_G4_G5_U1(t *testing.T) {
	entries, err := os.ReadDir(nodes)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := os.ReadFile(nodes + "/plugin.json")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := node.ParsePlugin(plugin, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		seen[e.Name()] = true
		t.Run(e.Name(), func(t *testing.T) {
			root := filepath.Join(nodes, e.Name())
			if source, err := os.ReadFile(root + "/SOURCE"); err != nil || len(source) < 10 {
				t.Errorf("SOURCE: %q, %v", source, err)
			}
			options := node.Options{Plugin: &entry}
			if args, err := os.ReadFile(root + "/ARGS"); err == nil {
				read := string(args) != "drop-ins=false\n"
				options.Dropins = &read
			}
			report := diagnose(t, root, options)
			asLibcni(t, root, report)
			golden(t, e.Name()+".txt", report.String())
			out, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, e.Name()+".json", string(out)+"\n")
		})
	}
	if len(seen) < 25 {
		t.Errorf("%d node directories", len(seen))
	}
	old, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range old {
		if name := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())); !e.IsDir() && !seen[name] {
			t.Errorf("testdata/%s: no such node directory", e.Name())
		}
	}
}

func diagnose(t *testing.T, root string, options node.Options) node.Report {
	t.Helper()
	r, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	report, err := node.Diagnose(r.FS(), options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func golden(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have); diff != "" {
		t.Errorf("%s: make generate, and look at what changed: %s", name, diff)
	}
}

// asLibcni compares with what libcni v1.3.1 loads from the same directory, picked as go-cni and ocicni do. Without
// drop-ins it is asked for the file's bytes alone, which is what it did before v1.3.0.
func asLibcni(t *testing.T, root string, report node.Report) {
	t.Helper()
	file, list := oracle(t, hostDir(t, root, report.ConfDir.Value), report)
	switch {
	case report.Loaded == nil:
		if file != "" {
			t.Errorf("nothing counts, libcni takes %s", file)
		}
	case file != report.Loaded.File:
		t.Errorf("%s counts, libcni takes %s", report.Loaded.File, file)
	case list == nil:
		if report.Loaded.Plugins != nil {
			t.Errorf("libcni refuses %s", file)
		}
	case report.Loaded.Plugins == nil:
		t.Logf("Holdfast refuses what libcni loads: %s", report.Verdict.Message)
	default:
		var want, have []string
		for _, p := range list.Plugins {
			want = append(want, p.Network.Type)
		}
		for _, p := range report.Loaded.Plugins {
			have = append(have, p.Type)
		}
		if diff := cmp.Diff(want, have); diff != "" || list.Name != report.Loaded.Network || list.CNIVersion != report.Loaded.CNIVersion {
			t.Errorf("libcni loads %s %s: %s", list.Name, list.CNIVersion, diff)
		}
	}
}

func oracle(t *testing.T, dir string, report node.Report) (file string, list *libcni.NetworkConfigList) {
	t.Helper()
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, path := range files {
		list, err := load(path, report.Dropins.Read)
		switch {
		case report.Runtime.Value == node.Containerd && err != nil:
			return filepath.Base(path), nil
		case err != nil, report.Runtime.Value == node.CRIO && !executable(t, root(dir), report.BinDirs, list):
		case filepath.Base(root(dir)) == "crio-default-network" && list.Name != "crio": // as its crio.conf says
		default:
			return filepath.Base(path), list
		}
	}
	return "", nil
}

// executable is what ocicni asks of libcni's ValidateNetworkList, without running the plugins.
func executable(t *testing.T, root string, binDirs []string, list *libcni.NetworkConfigList) bool {
	t.Helper()
	var dirs []string
	for _, dir := range binDirs {
		if info, err := os.Stat(root + dir); err == nil && info.IsDir() {
			dirs = append(dirs, root+dir)
		}
	}
	for _, p := range list.Plugins {
		if _, err := invoke.FindInPath(p.Network.Type, dirs); err != nil && dirs != nil {
			return false
		}
	}
	return true
}

func load(path string, dropins bool) (*libcni.NetworkConfigList, error) {
	if filepath.Ext(path) != ".conflist" {
		conf, err := libcni.ConfFromFile(path)
		if err != nil {
			return nil, err
		}
		return libcni.ConfListFromConf(conf)
	}
	if dropins {
		return libcni.ConfListFromFile(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromBytes(data)
}

// root is the node directory that a configuration directory is in.
func root(dir string) string {
	for filepath.Base(filepath.Dir(dir)) != "nodes" && dir != "/" {
		dir = filepath.Dir(dir)
	}
	return dir
}

// hostDir is the configuration directory as libcni can read it. Absolute links lead to another place here than on the
// node, so the case that has them is laid out without.
func hostDir(t *testing.T, root, confDir string) string {
	t.Helper()
	if filepath.Base(root) != "links" {
		dir, err := filepath.Abs(filepath.Join(root, confDir))
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	flat := t.TempDir()
	for from, to := range map[string]string{"opt/net/10-pods.conflist": "10-pods.conflist", "srv/dropins/99-holdfast.conf": "pods/99-holdfast.conf"} {
		data, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(flat, to)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(flat, to), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return flat
}
