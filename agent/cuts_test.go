package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// N13, N14: a UID that was cut off is remembered by the next process, and its first reason counts.
func TestCutsAreRememberedOnDisk(t *testing.T) {
	folder := t.TempDir()
	c := mustOpen(t, folder)
	for _, reason := range []string{"first", "second"} {
		if err := c.add(cutFile{UID: "u-1", Namespace: "n", Name: "p", Code: Expired, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	if kept, found := mustOpen(t, folder).has("u-1"); !found || kept.Reason != "first" || kept.Code != Expired {
		t.Errorf("got %+v, %v", kept, found)
	}
	if _, found := c.has("u-2"); found {
		t.Error("another UID was cut off")
	}
}

// N14: an order is remembered before it is done, and is one until then, in the next process too.
func TestAnOrderIsRememberedUntilItIsDone(t *testing.T) {
	folder := t.TempDir()
	c := mustOpen(t, folder)
	ordered := cutFile{UID: "u", Code: Requested, Reason: "first", Pending: true}
	if err := c.add(ordered); err != nil {
		t.Fatal(err)
	}
	c = mustOpen(t, folder)
	if kept, found := c.has("u"); !found || kept != ordered {
		t.Errorf("ordered: got %+v, %v", kept, found)
	}
	for _, uid := range []string{"u", "late"} { // one whose order could not be remembered before
		if err := c.done(cutFile{UID: uid, Code: Expired, Reason: "second"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.add(cutFile{UID: "late", Code: Expired, Reason: "second", Pending: true}); err != nil {
		t.Fatal(err)
	}
	c = mustOpen(t, folder)
	for uid, reason := range map[string]string{"u": "first", "late": "second"} {
		if kept, found := c.has(uid); !found || kept.Pending || kept.Reason != reason {
			t.Errorf("done: got %+v, %v", kept, found)
		}
	}
}

// I1: a file that can't be read still says whose it is.
func TestAnUnreadableMemoryOfACutStillCounts(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"empty.json": "", "half.json": `{"uid":"ha`, "other.json": `{"uid":"x"}`, ".new-1": "{}", "README": "x"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := mustOpen(t, folder)
	for _, uid := range []string{"empty", "half", "other"} {
		if kept, found := c.has(uid); !found || kept.Code != CutBefore {
			t.Errorf("%s: got %+v, %v", uid, kept, found)
		}
	}
	if len(c.known) != 3 {
		t.Errorf("%d are known", len(c.known))
	}
	if _, err := os.Stat(filepath.Join(folder, ".new-1")); !os.IsNotExist(err) {
		t.Error("what an earlier process left half written is still there")
	}
}

func TestALongReasonIsReadWhole(t *testing.T) {
	folder := t.TempDir()
	ordered := cutFile{UID: "u", Code: Requested, Reason: strings.Repeat("because ", 1<<15), Pending: true}
	if err := mustOpen(t, folder).add(ordered); err != nil {
		t.Fatal(err)
	}
	if kept, found := mustOpen(t, folder).has("u"); !found || kept != ordered {
		t.Errorf("got %.80q, %v", kept.Reason, found)
	}
}

func TestACutThatCannotBeWrittenIsRememberedAndTriedAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cut")
	c := mustOpen(t, folder)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := c.add(cutFile{UID: "u"}); err == nil {
		t.Error("no error")
	}
	if _, found := c.has("u"); !found {
		t.Error("forgotten")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.again(); err != nil {
		t.Error(err)
	}
	if _, found := mustOpen(t, folder).has("u"); !found {
		t.Error("not written")
	}
}

func TestAUIDThatIsNoFileNameWritesNothingElsewhere(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cut")
	c := mustOpen(t, folder)
	for _, uid := range []string{"", "../u", "a/b", ".hidden", "a\x00b"} {
		if err := c.add(cutFile{UID: uid}); err == nil {
			t.Errorf("%q was written", uid)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestOnlyPodsThatAreLongGoneAreForgotten(t *testing.T) {
	folder := t.TempDir()
	c := mustOpen(t, folder)
	now := time.Now()
	for uid, age := range map[string]time.Duration{"there": 2 * forgetAfter, "gone": 2 * forgetAfter, "fresh": time.Hour} {
		if err := c.add(cutFile{UID: uid}); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(folder, uid+".json"), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.prune(now, func(uid string) bool { return uid == "there" }); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, folder)
	for uid, want := range map[string]bool{"there": true, "gone": false, "fresh": true} {
		if _, found := again.has(uid); found != want {
			t.Errorf("%s is remembered: %v", uid, found)
		}
	}
	if err := again.prune(now.Add(forgetAfter-time.Minute), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if _, found := again.has("there"); !found {
		t.Error("one that was there a moment ago is forgotten")
	}
}

func mustOpen(t *testing.T, folder string) *cuts {
	t.Helper()
	c, err := openCuts(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
