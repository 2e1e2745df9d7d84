package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// N13, N14: a UID that was cut off is remembered by the next process, and its first reason counts.
func TestCutsAreRememberedOnDisk(t *testing.T) {
	folder := t.TempDir()
	c := opened(t, openCuts, folder)
	for _, reason := range []string{"first", "second"} {
		c.add(cutFile{UID: "u-1", Namespace: "n", Name: "p", Code: Expired, Reason: reason})
		mustSave(t, c)
	}
	if kept, found := opened(t, openCuts, folder).has("u-1"); !found || kept.Reason != "first" || kept.Code != Expired {
		t.Errorf("got %+v, %v", kept, found)
	}
	if _, found := c.has("u-2"); found {
		t.Error("another UID was cut off")
	}
}

// N14: an order is remembered before it is done, and is one until then, in the next process too.
func TestAnOrderIsRememberedUntilItIsDone(t *testing.T) {
	folder := t.TempDir()
	c := opened(t, openCuts, folder)
	ordered := cutFile{UID: "u", Code: Requested, Reason: "first", Pending: true}
	c.add(ordered)
	mustSave(t, c)
	c = opened(t, openCuts, folder)
	if kept, found := c.has("u"); !found || kept != ordered {
		t.Errorf("ordered: got %+v, %v", kept, found)
	}
	for _, uid := range []string{"u", "late"} { // one whose order could not be remembered before
		c.done(cutFile{UID: uid, Code: Expired, Reason: "second"})
		mustSave(t, c)
	}
	c.add(cutFile{UID: "late", Code: Expired, Reason: "second", Pending: true})
	mustSave(t, c)
	c = opened(t, openCuts, folder)
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
	c := opened(t, openCuts, folder)
	for _, uid := range []string{"empty", "half", "other"} {
		if kept, found := c.has(uid); !found || kept.Code != CutBefore {
			t.Errorf("%s: got %+v, %v", uid, kept, found)
		}
	}
	if len(c.known) != 3 {
		t.Errorf("%d are known", len(c.known))
	}
	mustSave(t, c)
	if _, err := os.Stat(filepath.Join(folder, ".new-1")); !os.IsNotExist(err) {
		t.Error("what an earlier process left half written is still there")
	}
}

func TestALongReasonIsReadWhole(t *testing.T) {
	folder := t.TempDir()
	ordered := cutFile{UID: "u", Code: Requested, Reason: strings.Repeat("because ", 1<<15), Pending: true}
	c := opened(t, openCuts, folder)
	c.add(ordered)
	mustSave(t, c)
	if kept, found := opened(t, openCuts, folder).has("u"); !found || kept != ordered {
		t.Errorf("got %.80q, %v", kept.Reason, found)
	}
}

func TestACutThatCannotBeWrittenIsRememberedAndTriedAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cut")
	c := opened(t, openCuts, folder)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	tried := c.add(cutFile{UID: "u"})
	if err := c.save(); err == nil {
		t.Error("no error")
	}
	if _, found := c.has("u"); !found {
		t.Error("forgotten")
	}
	if !c.wait(tried, 0) || c.add(cutFile{UID: "u"}) == nil {
		t.Error("it was tried, and isn't on the disk")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	mustSave(t, c)
	if c.add(cutFile{UID: "u"}) != nil {
		t.Error("it is on the disk")
	}
	if _, found := opened(t, openCuts, folder).has("u"); !found {
		t.Error("not written")
	}
}

// N14: a disk that answers nothing holds up nobody who asks, and one who is to remember something for no longer than they want.
func TestADiskThatHangsIsWaitedForOnce(t *testing.T) {
	folder := t.TempDir()
	c := opened(t, openCuts, folder) // and nobody saves
	if c.wait(c.add(cutFile{UID: "first", Pending: true}), 0) {
		t.Error("it was not tried")
	}
	if c.wait(c.add(cutFile{UID: "second", Pending: true}), time.Hour) {
		t.Error("it was not tried either")
	}
	c.done(cutFile{UID: "first"})
	for uid, pending := range map[string]bool{"first": false, "second": true} {
		if kept, found := c.has(uid); !found || kept.Pending != pending {
			t.Errorf("%s: got %+v, %v", uid, kept, found)
		}
	}
	mustSave(t, c)
	if kept, found := opened(t, openCuts, folder).has("first"); !found || kept.Pending {
		t.Errorf("it answers again: got %+v, %v", kept, found)
	}
	tried := c.add(cutFile{UID: "third"})
	go func() { _ = c.save() }()
	if !c.wait(tried, time.Hour) {
		t.Error("it answers again, and is not waited for")
	}
}

// N18: of many that are written at once, one that can't be holds up no other.
func TestManyAreWrittenAtOnce(t *testing.T) {
	folder := t.TempDir()
	c := opened(t, openCuts, folder)
	const many = 10 * writesAtOnce
	for i := range many {
		c.add(cutFile{UID: fmt.Sprintf("u-%d", i)})
	}
	c.add(cutFile{UID: "no/name"})
	if err := c.save(); err == nil {
		t.Error("no error")
	}
	if len(c.unsaved) != 1 || !c.unsaved["no/name"] {
		t.Errorf("%d are unsaved", len(c.unsaved))
	}
	if again := opened(t, openCuts, folder); len(again.known) != many {
		t.Errorf("%d are remembered", len(again.known))
	}
}

func TestAUIDThatIsNoFileNameWritesNothingElsewhere(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cut")
	c := opened(t, openCuts, folder)
	for _, uid := range []string{"", "../u", "a/b", ".hidden", "a\x00b"} {
		c.add(cutFile{UID: uid})
		if err := c.save(); err == nil {
			t.Errorf("%q was written", uid)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestOnlyPodsThatAreLongGoneAreForgotten(t *testing.T) {
	folder := t.TempDir()
	c := opened(t, openCuts, folder)
	now := time.Now()
	for uid, age := range map[string]time.Duration{"there": 2 * forgetAfter, "gone": 2 * forgetAfter, "fresh": time.Hour} {
		c.add(cutFile{UID: uid})
		mustSave(t, c)
		if err := os.Chtimes(filepath.Join(folder, uid+".json"), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.prune(now, func(uid string) bool { return uid == "there" }); err != nil {
		t.Fatal(err)
	}
	again := opened(t, openCuts, folder)
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

func mustSave(t *testing.T, c *cuts) {
	t.Helper()
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
}

// opened is a memory of a folder's.
func opened[T any](t *testing.T, open func(folder string) (T, error), folder string) T {
	t.Helper()
	memory, err := open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return memory
}
