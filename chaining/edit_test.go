package chaining_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestAppendFollowsTheListsOwnStyle_G2(t *testing.T) {
	files, err := filepath.Glob("testdata/append/*.conflist")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".conflist"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			appended := edited(t)(mustParse(t, string(text)).Append(mustEntry(t, ours)))
			golden := strings.TrimSuffix(file, ".conflist") + ".golden"
			if *update {
				if err := os.WriteFile(golden, appended.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(appended.Bytes())); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
			back := edited(t)(appended.Remove(len(appended.Plugins()) - 1))
			if !bytes.Equal(text, back.Bytes()) {
				t.Errorf("removed again: want %q, have %q", text, back.Bytes())
			}
		})
	}
}

func TestAppendKeepsCarriageReturns_G2(t *testing.T) {
	list := mustParse(t, "{\"name\": \"n\", \"plugins\": [\r\n\r\n\t{\"type\": \"a\"}\r\n]}\r\n")
	want := "{\"name\": \"n\", \"plugins\": [\r\n\r\n\t{\"type\": \"a\"},\r\n\t{\"type\": \"b\"}\r\n]}\r\n"
	have := edited(t)(list.Append(mustEntry(t, `{"type": "b"}`)))
	if diff := cmp.Diff(want, string(have.Bytes())); diff != "" {
		t.Errorf("(-want +have)\n%s", diff)
	}
}

func TestAppendIndentsLikeTheLastElement_G2(t *testing.T) {
	list := mustParse(t, "{\"name\": \"n\", \"plugins\": [\n {\"type\": \"a\"},\n\t{\"type\": \"b\"}\n]}")
	want := "{\"name\": \"n\", \"plugins\": [\n {\"type\": \"a\"},\n\t{\"type\": \"b\"},\n\t{\"type\": \"c\"}\n]}"
	have := edited(t)(list.Append(mustEntry(t, `{"type": "c"}`)))
	if diff := cmp.Diff(want, string(have.Bytes())); diff != "" {
		t.Errorf("(-want +have)\n%s", diff)
	}
}

func TestAppendInsertsEntriesOfSeveralLinesVerbatim_G2(t *testing.T) {
	entry := "{\n\"type\": \"b\"\n}"
	list := mustParse(t, "{\"name\": \"n\", \"plugins\": [\n  {\"type\": \"a\"}\n]}")
	have := edited(t)(list.Append(mustEntry(t, entry)))
	want := "{\"name\": \"n\", \"plugins\": [\n  {\"type\": \"a\"},\n  " + entry + "\n]}"
	if diff := cmp.Diff(want, string(have.Bytes())); diff != "" {
		t.Errorf("(-want +have)\n%s", diff)
	}
}

func TestReplaceAndRemoveTouchOnePluginOnly_G2(t *testing.T) {
	list := mustParse(t, "{\"z\": 1e3, \"name\": \"n\", \"plugins\": [\n  {\"type\": \"a\"} ,\n\n  {\"type\":\"b\"},{\"type\": \"c\"}\n], \"k\": \"\\u0041\"}")
	entry := mustEntry(t, ` {"type": "new"} `)
	for name, c := range map[string]struct {
		edit func() (chaining.List, error)
		want string
	}{
		"replace first":  {func() (chaining.List, error) { return list.Replace(0, entry) }, "\n  {\"type\": \"new\"} ,\n\n  {\"type\":\"b\"},{\"type\": \"c\"}\n"},
		"replace middle": {func() (chaining.List, error) { return list.Replace(1, entry) }, "\n  {\"type\": \"a\"} ,\n\n  {\"type\": \"new\"},{\"type\": \"c\"}\n"},
		"replace last":   {func() (chaining.List, error) { return list.Replace(2, entry) }, "\n  {\"type\": \"a\"} ,\n\n  {\"type\":\"b\"},{\"type\": \"new\"}\n"},
		"remove first":   {func() (chaining.List, error) { return list.Remove(0) }, "\n  {\"type\":\"b\"},{\"type\": \"c\"}\n"},
		"remove middle":  {func() (chaining.List, error) { return list.Remove(1) }, "\n  {\"type\": \"a\"},{\"type\": \"c\"}\n"},
		"remove last":    {func() (chaining.List, error) { return list.Remove(2) }, "\n  {\"type\": \"a\"} ,\n\n  {\"type\":\"b\"}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			have := edited(t)(c.edit())
			want := "{\"z\": 1e3, \"name\": \"n\", \"plugins\": [" + c.want + "], \"k\": \"\\u0041\"}"
			if diff := cmp.Diff(want, string(have.Bytes())); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
}

func TestEditsThatWouldBreakAListAreRefused_G5(t *testing.T) {
	one, entry := listOf(t, ours), mustEntry(t, ours)
	large := mustEntry(t, `{"type": "x", "a": "`+strings.Repeat("x", chaining.MaxSize-100)+`"}`)
	deep := mustEntry(t, `{"type": "x", "a": `+strings.Repeat("[", 63)+strings.Repeat("]", 63)+`}`)
	for name, c := range map[string]struct {
		edit func() (chaining.List, error)
		kind error
		want string
	}{
		"remove the only one": {func() (chaining.List, error) { return one.Remove(0) }, chaining.ErrNoPlugins, "remove plugins[0]: the only plugin of the list: remove the list instead"},
		"remove past the end": {func() (chaining.List, error) { return one.Remove(1) }, chaining.ErrIndex, "remove plugins[1]: the list ends with plugins[0]: name a plugin it has"},
		"replace before all":  {func() (chaining.List, error) { return one.Replace(-1, entry) }, chaining.ErrIndex, "replace plugins[-1]: the list ends with plugins[0]: name a plugin it has"},
		"append nothing":      {func() (chaining.List, error) { return one.Append(chaining.Entry{}) }, chaining.ErrSyntax, ""},
		"replace by nothing":  {func() (chaining.List, error) { return one.Replace(0, chaining.Entry{}) }, chaining.ErrNoPlugins, "plugins: empty: give at least one plugin configuration"},
		"append to nothing":   {func() (chaining.List, error) { return chaining.List{}.Append(entry) }, chaining.ErrEmpty, "append: the list was never parsed: parse one first"},
		"grow too large":      {func() (chaining.List, error) { return one.Append(large) }, chaining.ErrTooLarge, ""},
		"grow too deep":       {func() (chaining.List, error) { return one.Append(deep) }, chaining.ErrTooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := c.edit()
			if !errors.Is(err, c.kind) || c.want != "" && err.Error() != c.want {
				t.Errorf("want %v %q, have %v", c.kind, c.want, err)
			}
			if list.Bytes() != nil {
				t.Errorf("a list came out: %s", list.Bytes())
			}
		})
	}
}

// edited unwraps an edit that must succeed.
func edited(t testing.TB) func(chaining.List, error) chaining.List {
	return func(list chaining.List, err error) chaining.List {
		t.Helper()
		if err != nil {
			t.Fatalf("edit: %v", err)
		}
		return list
	}
}
