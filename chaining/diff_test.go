package chaining_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

type differences = []chaining.Difference

func TestDiffNamesEveryPlaceInDocumentOrder_C2(t *testing.T) {
	long, many := strings.Repeat("x", 100), "["+strings.Repeat("1,", 30)+"1]"
	for name, c := range map[string]struct {
		path, want, have string
		differ           differences
	}{
		"key order, white space, escapes": {"", `{"a": [1, {"b": null}], "c": "é"}`, "{\"c\":\"\\u00e9\",\"a\":[1,{\"b\":null}]}", nil},
		"changed, missing, extra": {
			"plugins[1]", `{"r": ["a", "b"], "x": {"y": true}, "z": 1}`, `{"new": {}, "x": {"y": false}, "r": ["a", "c", "d"]}`,
			differences{
				{"plugins[1].r[1]", `"b"`, `"c"`}, {"plugins[1].r[2]", "", `"d"`}, {"plugins[1].x.y", "true", "false"},
				{"plugins[1].z", "1", ""}, {"plugins[1].new", "", "{}"},
			},
		},
		"shorter array":     {"", `[1, [2, 3]]`, `[1]`, differences{{"[1]", "[2,3]", ""}}},
		"another kind":      {"p", `{"a": {}}`, `{"a": []}`, differences{{"p.a", "{}", "[]"}}},
		"the root":          {"", `1`, `"1"`, differences{{"", "1", `"1"`}}},
		"null is not false": {"", `{"a": null}`, `{"a": false}`, differences{{"a", "null", "false"}}},
		"null is not absent": {
			"", `{"a": null}`, `{}`, differences{{"a", "null", ""}},
		},
		"names that need quotes": {
			"p", `{"io.x/y": 1, "": 2, "a b": 3, "log-file_1": 4}`, `{}`,
			differences{{`p["io.x/y"]`, "1", ""}, {`p[""]`, "2", ""}, {`p["a b"]`, "3", ""}, {`p.log-file_1`, "4", ""}},
		},
		"values for one line": {
			"", `{"a": "\n\u202e\"\\\ud83d\ude00é\udb40\udc01"}`, `{"a": [{"b": 1.50, "c": null}, true]}`,
			differences{{"a", `"\u000a\u202e\"\\😀é\udb40\udc01"`, `[{"b":1.50,"c":null},true]`}},
		},
		"long values": {
			"", `{"a": "` + long + `"}`, `{"a": {"b": ` + many + `}}`,
			differences{{"a", `"` + strings.Repeat("x", 59) + "…", `{"b":[` + strings.Repeat("1,", 27) + "…"}},
		},
		"long names": {
			"", `{"` + long + `": {"` + long + `": 1}}`, `{"` + long + `": {"` + long + `": 2}}`,
			differences{{"…" + strings.Repeat("x", 48) + `…"]["` + strings.Repeat("x", 60) + `…"]`, "1", "2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := chaining.Diff(c.path, []byte(c.want), []byte(c.have))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.differ, have); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
}

func TestDiffComparesNumbersByValue_C2(t *testing.T) {
	for _, equal := range [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000", "100e-2", "0.001e3"},
		{"0", "-0", "0.0", "0e9", "-0.00e-5"},
		{"12345678901234567890", "12345678901234567890.0", "1.2345678901234567890e19"},
		{"12345678901234567891"},
		{"0.1", "1e-1"}, {"0.10000000000000000001"},
		{"-1", "-1.0"}, {"10", "1e1", "1e+01"}, {"1e999999999", "10e999999998"}, {"1e-999999999"},
	} {
		for _, other := range [][]string{equal, {"7", "1.1", "-0.5", "12345678901234567892"}} {
			for _, a := range equal {
				for _, b := range other {
					differ, err := chaining.Diff("", []byte(a), []byte(b))
					if err != nil {
						t.Fatal(err)
					}
					if same := &other[0] == &equal[0]; same != (len(differ) == 0) {
						t.Errorf("%s and %s: %v", a, b, differ)
					}
				}
			}
		}
	}
}

func TestDiffIsBounded(t *testing.T) {
	want, have := "[0", "[1"
	for i := range 100 {
		want, have = fmt.Sprintf("%s, %d", want, i), have+", null"
	}
	differ, err := chaining.Diff("", []byte(want+"]"), []byte(have+"]"))
	if err != nil || len(differ) != 20 || differ[19].Path != "[19]" {
		t.Errorf("%v, %d differences: %v", err, len(differ), differ)
	}
}

func TestDiffSaysWhichSideIsNoJSON(t *testing.T) {
	for _, c := range []struct {
		want, have, message string
		kind                error
	}{
		{"{", "{}", "want: line 1, column 2: the text ends too early: complete it", chaining.ErrSyntax},
		{"{}", "", "have: empty: write the configuration again, in one rename", chaining.ErrEmpty},
	} {
		_, err := chaining.Diff("p", []byte(c.want), []byte(c.have))
		if err == nil || err.Error() != c.message || !errors.Is(err, c.kind) {
			t.Errorf("want %q, have %v", c.message, err)
		}
	}
}

func TestDifferenceReadsAsHalfASentence(t *testing.T) {
	for want, difference := range map[string]chaining.Difference{
		`plugins[1].mtu: want 1500, have 1400`:  {Path: "plugins[1].mtu", Want: "1500", Have: "1400"},
		`plugins[1].mtu: want nothing, have 1`:  {Path: "plugins[1].mtu", Have: "1"},
		`the whole value: want 1, have nothing`: {Want: "1"},
	} {
		if have := difference.String(); want != have {
			t.Errorf("want %s, have %s", want, have)
		}
	}
}
