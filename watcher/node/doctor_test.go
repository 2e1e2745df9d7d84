package node_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

const chained = `{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"}, {"type": "holdfast-cni", "resolvers": []}]}`

func files(pairs ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		root[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return root
}

func TestHostIsWhereTheRuntimeIsToldToLook_G4(t *testing.T) {
	const v2, v3 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\n", "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\n"
	for name, c := range map[string]struct {
		root    fstest.MapFS
		options node.Options
		want    node.Host
	}{
		"nothing is known": {files(), node.Options{}, node.Host{
			Runtime: "containerd", RuntimeWhy: "assumed; --runtime says otherwise", ConfDir: "/etc/cni/net.d", ConfDirWhy: "the default"}},
		"containerd 2": {files("etc/containerd/config.toml", v3+"conf_dir = '/a/b/'\nbin_dirs = ['/x', '/y']"), node.Options{}, node.Host{
			Runtime: "containerd", RuntimeWhy: "/etc/containerd/config.toml", ConfDir: "/a/b", ConfDirWhy: "/etc/containerd/config.toml", BinDirs: []string{"/x", "/y"}}},
		"an imported file of containerd's": {
			files("etc/containerd/config.toml", "imports = ['conf.d/*.toml']\n"+v3+"conf_dir = '/a'\nbin_dirs = ['/x']", "etc/containerd/conf.d/99.toml", v3+"conf_dir = '/b'\nmax_conf_num = 0",
				"etc/containerd/conf.d/99.toml.bak", v3+"conf_dir = '/c'"), node.Options{}, node.Host{
				Runtime: "containerd", RuntimeWhy: "/etc/containerd/conf.d/99.toml", ConfDir: "/b", ConfDirWhy: "/etc/containerd/conf.d/99.toml", BinDirs: []string{"/x"},
				Notes: []string{"/etc/containerd/conf.d/99.toml: max_conf_num is 0: pods get more networks than the one judged here"}}},
		"k3s before the host's own containerd": {
			files("etc/containerd/config.toml", v2+"conf_dir = '/a'", "var/lib/rancher/k3s/agent/etc/containerd/config.toml", v2+"conf_dir = '/k3s'\nbin_dir = '/bin'"),
			node.Options{}, node.Host{Runtime: "containerd", RuntimeWhy: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
				ConfDir: "/k3s", ConfDirWhy: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", BinDirs: []string{"/bin"}}},
		"both, and kubelet says which": {
			files("etc/containerd/config.toml", v2, "etc/crio/crio.conf", "", "var/lib/kubelet/config.yaml", "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock"),
			node.Options{}, node.Host{Runtime: "crio", RuntimeWhy: "/var/lib/kubelet/config.yaml", ConfDir: "/etc/cni/net.d", ConfDirWhy: "the default, /etc/crio/crio.conf names none"}},
		"CRI-O's later file wins": {
			files("etc/crio/crio.conf.d/00-a", "[crio.network]\nnetwork_dir='/a'", "etc/crio/crio.conf.d/10-b", "[crio.network]\nnetwork_dir='/b'\ncni_default_network='n'"),
			node.Options{}, node.Host{Runtime: "crio", RuntimeWhy: "/etc/crio/crio.conf.d/10-b", ConfDir: "/b", ConfDirWhy: "/etc/crio/crio.conf.d/10-b", Network: "n"}},
		"GKE's executables": {files("home/kubernetes/bin/ptp", "", "etc/cni/net.d/10.conflist", chained), node.Options{}, node.Host{
			Runtime: "containerd", RuntimeWhy: "assumed; --runtime says otherwise", ConfDir: "/etc/cni/net.d",
			ConfDirWhy: "the first known directory with configuration in it", BinDirs: []string{"/home/kubernetes/bin"}}},
		"an empty directory counts less": {
			files("var/lib/rancher/k3s/agent/etc/cni/net.d/x.tmp", "", "etc/kubernetes/cni/net.d/00-multus.conf", ""), node.Options{}, node.Host{
				Runtime: "crio", RuntimeWhy: "as the directory is OpenShift's", ConfDir: "/etc/kubernetes/cni/net.d", ConfDirWhy: "the first known directory with configuration in it"}},
		"a broken configuration is named": {files("etc/containerd/config.toml", "version = \n", "etc/cni/net.d/x", ""), node.Options{}, node.Host{
			Runtime: "containerd", RuntimeWhy: "assumed; --runtime says otherwise", ConfDir: "/etc/cni/net.d", ConfDirWhy: "the first known directory that exists",
			Notes: []string{"/etc/containerd/config.toml is not used: toml: line 1 (last key \"version\"): expected value but found '\\n' instead"}}},
		"the options win": {files("etc/containerd/config.toml", v2+"conf_dir = '/a'", "x/y/z", ""), node.Options{Runtime: "crio", ConfDir: "x/y"}, node.Host{
			Runtime: "crio", RuntimeWhy: "--runtime", ConfDir: "/x/y", ConfDirWhy: "--conf-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := node.FindHost(c.root, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := node.FindHost(files(), node.Options{ConfDir: "/none"}); err == nil || !strings.Contains(err.Error(), "no such directory") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestDoctorWithoutPluginJudgesPresenceAndPlace_U1(t *testing.T) {
	for text, want := range map[string]chaining.Reason{
		chained: chaining.Chained,
		strings.Replace(chained, "holdfast-cni", "other", 1):                         chaining.EntryMissing,
		strings.Replace(chained, `{"type": "bridge"}`, `{"type":"holdfast-cni"}`, 1): chaining.EntryDuplicated,
		strings.TrimSuffix(chained, "]}") + `, {"type": "z"}]}`:                      chaining.EntryNotLast,
	} {
		report, err := node.Diagnose(files("etc/cni/net.d/10.conflist", text), node.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := report.Verdict; v.Reason != want || v.Compared || v.Chained != (want == "") || v.Fix != want.Fix() {
			t.Errorf("%s: %+v", text, v)
		}
	}
}

// The entry may be another vendor's; a refused plugin.json is a reason of its own.
func TestDoctorTakesAnyEntry_N17(t *testing.T) {
	entry, err := node.ParsePlugin([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  plugin.json: |\n    {\"type\": \"istio-cni\"}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	root := files("etc/cni/net.d/10.conflist", strings.Replace(chained, `{"type": "holdfast-cni", "resolvers": []}`, `{"type": "istio-cni"}`, 1))
	report, err := node.Diagnose(root, node.Options{Plugin: &entry})
	if err != nil || !report.Verdict.Chained || report.Verdict.Type != "istio-cni" {
		t.Errorf("%+v, %v", report.Verdict, err)
	}
	_, broken := node.ParsePlugin([]byte(`{"type": "a", "type": "b"}`), nil)
	report, err = node.Diagnose(root, node.Options{PluginErr: broken})
	if err != nil || report.Verdict.Reason != chaining.PluginConfigInvalid || !strings.Contains(report.Verdict.Message, "duplicate key") {
		t.Errorf("%+v, %v", report.Verdict, err)
	}
}

// Names of files are anybody's: they must not write lines of the report.
func TestReportKeepsHostileNamesOnTheirLine_G5(t *testing.T) {
	for _, name := range []string{"10-a\nverdict    chained.conflist", "10-a\nverdict    chained.conf"} {
		for _, text := range []string{"{", chained, `{"name": "pods", "type": "bridge"}`, `{"name": "a\nverdict    chained", "plugins": [{"type": "x"}]}`} {
			report, err := node.Diagnose(files("etc/cni/net.d/"+name, text, "etc/cni/net.d/\x1b[2J", "", "etc/crio/crio.conf.d/\nverdict    chained", ""), node.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if said := report.String(); strings.Count(said, "\nverdict ") != 1 || strings.Contains(said, "\x1b") {
				t.Errorf("%s: %s", text, said)
			}
		}
	}
}

// A list of Holdfast's own does not stand for a network plugin that is gone; there is a strategy, which removes it.
func TestDoctorSaysThatOnlyOurListIsLeft_G3(t *testing.T) {
	report, err := node.Diagnose(files("etc/cni/net.d/10-pods-holdfast.conflist", chained), node.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := report.Verdict; v.Reason != chaining.NoNetworkList || !strings.Contains(v.Message, "only 10-pods-holdfast.conflist is there") || report.Strategy == nil {
		t.Errorf("%+v, %+v", v, report.Strategy)
	}
}
