package chaining_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-cni/holdfast/chaining"
)

func FuzzDiff(f *testing.F) {
	for i, seed := range seeds {
		f.Add([]byte(seed), []byte(seeds[(i+1)%len(seeds)]))
	}
	f.Add([]byte(`{"a": 1.0, "b": [1e2]}`), []byte(`{"b":[100],"a":1}`))
	f.Add([]byte(`0`), []byte(`"0"`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if same, err := chaining.Diff("p", a, a); len(same) != 0 {
			t.Fatalf("differs from itself: %v", same)
		} else if err != nil {
			wellSaid(t, err)
		}
		there, err := chaining.Diff("p", a, b)
		if err != nil {
			return
		}
		back, err := chaining.Diff("p", b, a)
		if err != nil || len(there) == 0 != (len(back) == 0) {
			t.Fatalf("there %v, back %v, %v", there, back, err)
		}
		for _, d := range there {
			if !strings.HasPrefix(d.Path, "p") && !strings.HasPrefix(d.Path, "…") || d.Want == d.Have && len(d.Want) < 60 && !strings.Contains(d.Want, "…") {
				t.Fatalf("not a difference: %+v", d)
			}
		}
		x, xFits := decode(t, a)
		y, yFits := decode(t, b)
		if xFits && yFits && reflect.DeepEqual(x, y) != (len(there) == 0) {
			t.Fatalf("decoded %v and %v, but %v", x, y, there)
		}
	})
}

// decode is another reader of the same JSON, with exact numbers; false where those would be too large to compute.
func decode(t *testing.T, data []byte) (any, bool) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("encoding/json refuses: %v", err)
	}
	return exact(value)
}

func exact(value any) (any, bool) {
	fits := true
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			var ok bool
			v[key], ok = exact(v[key])
			fits = fits && ok
		}
	case []any:
		for i := range v {
			var ok bool
			v[i], ok = exact(v[i])
			fits = fits && ok
		}
	case json.Number:
		if i := strings.IndexAny(string(v), "eE"); i >= 0 && len(strings.TrimLeft(string(v[i+1:]), "+-0")) > 3 {
			return nil, false
		}
		rat, ok := new(big.Rat).SetString(string(v))
		return json.Number(rat.RatString()), ok // stays another type than the string "0"
	}
	return value, fits
}
