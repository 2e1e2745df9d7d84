//go:build e2e

package e2e

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/e2e/crash"
)

// transition is one thing that install-cni has to bring about on a node.
type transition struct {
	name string
	// before are the files of others at the time Holdfast did was, with the entry had; nothing where there is no entry.
	before crash.Tree
	was    chaining.Strategy
	had    string
	// now are the files of others that install-cni meets; it is to chain the entry by the strategy, or to leave where there is none.
	now      crash.Tree
	strategy chaining.Strategy
	entry    string
	// oldBinary is what is in the bin directory; empty: none.
	oldBinary string
}

const (
	firstEntry  = `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10"],"governedNamespaces":["jobs"]}`
	secondEntry = `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.53"],"governedNamespaces":["jobs","builds"]}`
)

// plugin is an executable that answers VERSION and is long enough to be half there.
func plugin(version string) string {
	const answer = `{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`
	return "#!/bin/sh\n# " + version + "\ncat > /dev/null\necho '" + answer + "'\nexit 0\n" + strings.Repeat("# filling\n", 20000)
}

func lists(pairs ...string) crash.Tree {
	t := crash.Tree{}
	for i := 0; i < len(pairs); i += 2 {
		t[pairs[i]] = crash.File{Data: []byte(pairs[i+1]), Mode: 0o644}
		if dir := filepath.Dir(pairs[i]); dir != "." {
			t[dir] = crash.File{Mode: fs.ModeDir | 0o755}
		}
	}
	return t
}

func nodeFile(node, name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", "nodes", node, "etc", "cni", "net.d", name))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// transitions are those of the issue, on lists of several vendors and with both strategies that write.
func transitions() []transition {
	GinkgoHelper()
	const bridge = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}, {"type": "portmap"}]}`
	const other = `{"cniVersion": "0.4.0", "name": "other", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.2.0.0/24"}}]}`
	primaries := map[string]crash.Tree{
		"bridge":  lists("10-bridge.conflist", bridge),
		"cilium":  lists("05-cilium.conflist", nodeFile("cilium-dropin", "05-cilium.conflist")),
		"kindnet": lists("10-kindnet.conflist", nodeFile("kindnet", "10-kindnet.conflist")),
		"foreign": lists("10-bridge.conflist", bridge, "pods/zz-tuning.conf", `{"type": "tuning"}`),
	}
	current := plugin("second")
	all := []transition{
		{name: "list: a .conf chained from nothing", now: lists("10-flannel.conf", nodeFile("flannel-conf", "10-flannel.conf")), strategy: chaining.ByList, entry: firstEntry, oldBinary: current},
		{name: "drop-in: gone with its network", before: primaries["bridge"], was: chaining.ByList, had: firstEntry, now: crash.Tree{}, strategy: chaining.ByDropin, entry: firstEntry, oldBinary: current},
	}
	for _, s := range []chaining.Strategy{chaining.ByDropin, chaining.ByList} {
		from := map[chaining.Strategy]chaining.Strategy{chaining.ByDropin: chaining.ByList, chaining.ByList: chaining.ByDropin}[s]
		for _, name := range slices.Sorted(maps.Keys(primaries)) {
			files := primaries[name]
			on := string(s) + ", " + name + ": "
			all = append(all,
				transition{name: on + "nothing to installed", now: files, strategy: s, entry: firstEntry},
				transition{name: on + "another plugin.json", before: files, was: s, had: firstEntry, now: files, strategy: s, entry: secondEntry, oldBinary: current},
				transition{name: on + "strategy switched", before: files, was: from, had: firstEntry, now: files, strategy: s, entry: firstEntry, oldBinary: current},
				transition{name: on + "strategy switched, another plugin.json", before: files, was: from, had: firstEntry, now: files, strategy: s, entry: secondEntry, oldBinary: current},
				transition{name: on + "taken out", before: files, was: s, had: firstEntry, now: files, oldBinary: current},
			)
		}
		changed := lists("10-bridge.conflist", strings.Replace(bridge, "10.1.0.0", "10.3.0.0", 1))
		replaced := maps.Clone(primaries["bridge"])
		maps.Copy(replaced, lists("05-other.conflist", other))
		on := string(s) + ": "
		all = append(all,
			transition{name: on + "the primary changed, and plugin.json", before: primaries["bridge"], was: s, had: firstEntry, now: changed, strategy: s, entry: secondEntry, oldBinary: current},
			transition{name: on + "the primary replaced", before: primaries["bridge"], was: s, had: firstEntry, now: replaced, strategy: s, entry: firstEntry, oldBinary: current},
			transition{name: on + "the binary replaced", before: primaries["bridge"], was: s, had: firstEntry, now: primaries["bridge"], strategy: s, entry: firstEntry, oldBinary: plugin("first")},
		)
	}
	return all
}

// both are the configuration directory before and after the transition, made by the plan and the store alone.
func (t transition) both(scratch string) (old, now crash.Tree) {
	GinkgoHelper()
	Expect(t.before.Write(scratch)).To(Succeed())
	carryOut(scratch, t.was, t.had)
	old, err := crash.Read(scratch)
	Expect(err).NotTo(HaveOccurred())
	for name := range t.before { // of others: they change theirs meanwhile
		delete(old, name)
	}
	maps.Copy(old, t.now)
	Expect(old.Write(scratch)).To(Succeed())
	carryOut(scratch, t.strategy, t.entry)
	now, err = crash.Read(scratch)
	Expect(err).NotTo(HaveOccurred())
	return old, now
}

func carryOut(dir string, s chaining.Strategy, entry string) {
	GinkgoHelper()
	d, err := chaining.ReadDirectory(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	Expect(err).NotTo(HaveOccurred())
	var e chaining.Entry
	if entry == "" {
		s = ""
	} else {
		e, err = chaining.ParseEntry([]byte(entry))
		Expect(err).NotTo(HaveOccurred())
	}
	change, err := d.Change(chaining.Runtime{Dropins: true}, s, e)
	Expect(err).NotTo(HaveOccurred())
	Expect(store.Apply(dir, change)).To(Succeed())
}
