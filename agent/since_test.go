package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/agent/contract"
)

// N18: a pod was there before its namespace was governed only if nothing says otherwise.
func TestSinceWhenANamespaceIsGoverned(t *testing.T) {
	folder := t.TempDir()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	s := opened(t, openSince, folder)
	step := func(now, changed time.Time, namespaces ...string) {
		t.Helper()
		s.observe(now, changed, namespaces)
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
	}
	existed := func(namespace string, made time.Time, want bool) {
		t.Helper()
		if got := s.existed(namespace, made); got != want {
			t.Errorf("%s, made %v: existed %v", namespace, made, got)
		}
	}
	step(at(0), at(-2), "a") // a new node: plugin.json is older than its agent
	existed("a", at(-3), true)
	existed("a", at(-1), false)
	existed("b", at(-9), false)
	step(at(1), at(1), "a", "b") // plugin.json changed: that makes no pod of a look older
	existed("a", at(-1), false)
	existed("b", at(0), true)
	s = opened(t, openSince, folder) // the next life
	step(at(5), at(4), "a", "b", "c")
	existed("a", at(-1), false)
	existed("b", at(2), false)
	existed("c", at(3), true)
	step(at(6), time.Time{}, "b", "d") // nobody says when
	existed("a", at(-9), false)
	existed("d", at(5), true)
	step(at(7), at(9), "a", "e") // a clock that is ahead
	existed("e", at(8), false)
	existed("e", at(6), true)
}

func TestABrokenMemoryOfSinceWhenIsNoneAndAnError(t *testing.T) {
	for name, text := range map[string]string{"cut short": `{"a":"2026-01-01T12:00:00Z"`, "no time": `{"b":"2026-01-01T12:00:00Z","a":"yesterday"}`, "a list": "[]", "empty": "", "too long": `{"` + strings.Repeat("a", maxMemory)} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, sinceFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := openSince(folder); len(s.at) != 0 || err == nil {
			t.Errorf("%s: got %v, %v", name, s.at, err)
		}
	}
}

// N18: as many namespaces as a cluster has are remembered by the next agent.
func TestManyNamespacesAreRemembered(t *testing.T) {
	folder := t.TempDir()
	var namespaces []string
	for i := range 1000 {
		namespaces = append(namespaces, fmt.Sprintf("tenant-%04d-%s", i, strings.Repeat("x", 50)))
	}
	now := time.Now()
	s := opened(t, openSince, folder)
	s.observe(now, now.Add(-time.Hour), namespaces)
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, openSince, folder)
	if got := len(s.namespaces()); got != len(namespaces) {
		t.Errorf("%d are remembered", got)
	}
	s.observe(now, now, namespaces)
	if s.existed(namespaces[0], now.Add(-time.Minute)) {
		t.Error("a pod that got past the chain looks older than the governing")
	}
}

func TestSinceWhenThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "memory")
	s := opened(t, openSince, folder)
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.observe(time.Now(), time.Time{}, []string{"a"})
	if err := s.save(); err == nil {
		t.Error("written into a file as a folder")
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	s.observe(time.Now(), time.Time{}, []string{"a"})
	if err := s.save(); err != nil {
		t.Error(err)
	}
	if got := opened(t, openSince, folder).namespaces(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestWhenPluginJSONWasChanged(t *testing.T) {
	entry := func(fields string, second int64) metav1.ManagedFieldsEntry {
		time := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Time: &time, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    int64
	}{
		"helm's":        {[]metav1.ManagedFieldsEntry{entry(`{"f:data":{"f:plugin.json":{}}}`, 5)}, 5},
		"the latest":    {[]metav1.ManagedFieldsEntry{entry(`{"f:data":{"f:plugin.json":{}}}`, 5), entry(`{"f:data":{"f:plugin.json":{}}}`, 7)}, 7},
		"another key's": {[]metav1.ManagedFieldsEntry{entry(`{"f:data":{"f:plugin.json":{}}}`, 5), entry(`{"f:data":{"f:leaving":{}}}`, 7)}, 5},
		"nobody's":      {nil, 0},
		"no time's":     {[]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:plugin.json":{}}`)}}, 0},
	} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.entries}}
		got := changedAt(config)
		if test.want == 0 && !got.IsZero() || test.want != 0 && got.Unix() != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// N19: what was allowed once on this node since its boot breaks no running pod.
func TestPoliciesOnlyGrow(t *testing.T) {
	folder := t.TempDir()
	p := opened(t, openPolicies, folder)
	for _, image := range []string{"sha256:a", "sha256:b", "sha256:a"} {
		if _, err := p.with(contract.Policy{Images: []string{image}, RuntimeClasses: []string{"r"}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := opened(t, openPolicies, folder).with(contract.Policy{SeccompProfiles: []string{"s"}})
	if err != nil || len(all.Images) != 2 || len(all.RuntimeClasses) != 1 || len(all.SeccompProfiles) != 1 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// I1: what can't be written is tried again, and what is remembered is known without plugin.json.
func TestPoliciesThatCannotBeWrittenAreTriedAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	p := opened(t, openPolicies, folder)
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, known := p.remembered(); known {
		t.Error("known from nothing")
	}
	allowed := contract.Policy{Images: []string{"sha256:a"}}
	if _, err := p.with(allowed); err == nil {
		t.Error("written into a file as a folder")
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := p.with(allowed); err != nil {
		t.Error(err)
	}
	if all, known := opened(t, openPolicies, folder).remembered(); !known || len(all.Images) != 1 {
		t.Errorf("got %+v, %v", all, known)
	}
}

// N19: as many policies as there may be are remembered by the next agent.
func TestManyPoliciesAreRemembered(t *testing.T) {
	folder := t.TempDir()
	var images []string
	for i := range 2000 {
		images = append(images, fmt.Sprintf("sha256:%064x", i))
	}
	if _, err := opened(t, openPolicies, folder).with(contract.Policy{Images: images}); err != nil {
		t.Fatal(err)
	}
	if all, known := opened(t, openPolicies, folder).remembered(); len(all.Images) != len(images) || !known {
		t.Errorf("%d are remembered, %v", len(all.Images), known)
	}
}

// N19: where what was allowed can't be read, no agent of this boot takes what is allowed now for all of it.
func TestABrokenMemoryOfPoliciesIsAnErrorAndIncomplete(t *testing.T) {
	for name, text := range map[string]string{"cut short": `{"Images":["sha256:a"`, "no list": `{"Images":7}`, "empty": "", "too long": strings.Repeat(" ", maxMemory+1)} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "policies.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := openPolicies(folder)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := p.with(contract.Policy{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p = opened(t, openPolicies, folder)
			if all, err := p.with(contract.Policy{Images: []string{"sha256:b"}}); err != nil || len(all.Images) != 1 || p.whole() {
				t.Errorf("%s: got %+v, %v, whole %v", name, all, err, p.whole())
			}
			if _, known := p.remembered(); known {
				t.Errorf("%s: known", name)
			}
		}
	}
	if !opened(t, openPolicies, t.TempDir()).whole() {
		t.Error("that of a new boot is incomplete")
	}
}

func TestStampsNameAnyVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "v1.2.3", "(devel)": "devel", "v0.0.0-20260101+dirty": "v0.0.0-20260101+dirty", "": "unknown", "(ü)": "unknown"} {
		if got := stampRelease(version); got != want {
			t.Errorf("%q: got %q", version, got)
		}
	}
}
