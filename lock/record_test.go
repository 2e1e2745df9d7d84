package lock

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Record {
	return Record{
		Sets: []RecordedSet{
			{Name: "alive", Definition: []byte{1}},
			{Name: "refused4", Definition: []byte{2}, Elements: [][]byte{{10}, {11}}},
		},
		Objects: []string{"input type 1", "refused type 1"},
		Chains: []RecordedChain{
			{Name: "cut_in", Definition: []byte{3}, Rules: []RecordedRule{{"iif lo accept", []byte{4}}, {"drop all", []byte{5}}}},
			{Name: "sidecar", Rules: []RecordedRule{{"tcp accept", []byte{6}}}},
		},
	}
}

func TestRecordSurvivesJSON(t *testing.T) {
	data, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Error(diff)
	}
	for name, bad := range map[string]string{
		"nothing": "", "truncated": string(data[:len(data)-9]), "more behind": string(data) + "{}", "an unknown key": `{"flag":1}`,
		"no chains": `{"flags":0,"sets":[{"name":"a","definition":""}],"objects":[],"chains":[]}`, "an array": "[]", "null": "null",
	} {
		if _, err := ParseRecord([]byte(bad)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: got %v, want ErrRecord", name, err)
		}
	}
}

// What is written by hand is what encoding/json writes of the same.
func TestRecordIsWrittenAsJSONDoes(t *testing.T) {
	type plain Record
	odd := sample()
	odd.Generation, odd.Flags, odd.Flowtables = 7, 1, []string{"a\"b\\c", "<&>\x00\x7fé\xff\u2028"}
	odd.Chains[0].Rules[0].Text = "\t"
	for name, r := range map[string]Record{"empty": {}, "sample": sample(), "odd": odd} {
		want, err := json.Marshal(plain(r))
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.MarshalJSON()
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, want)
		}
	}
}

func TestCompareNamesTheFirstDifference(t *testing.T) {
	if err := sample().Compare(sample()); err != nil {
		t.Errorf("equal records: %v", err)
	}
	withoutTexts := sample()
	withoutTexts.Chains[0].Rules[0].Text = ""
	if err := sample().Compare(withoutTexts); err != nil {
		t.Errorf("texts were compared: %v", err)
	}
	for _, test := range []struct {
		want   string
		change func(*Record)
	}{
		{"table flags are 1, not 0", func(r *Record) { r.Flags = 1 }},
		{"chain sidecar is missing", func(r *Record) { r.Chains = r.Chains[:1] }},
		{"chain aaa was added", func(r *Record) { r.Chains = slices.Insert(r.Chains, 0, RecordedChain{Name: "aaa"}) }},
		{"chain zzz was added", func(r *Record) { r.Chains = append(r.Chains, RecordedChain{Name: "zzz"}) }},
		{"chain cut_in: another type, hook, priority, policy or flag", func(r *Record) { r.Chains[0].Definition = []byte{9} }},
		{"chain cut_in: rule 2 (drop all) is missing", func(r *Record) { r.Chains[0].Rules = r.Chains[0].Rules[:1] }},
		{"chain cut_in: rule 3 was added", func(r *Record) { r.Chains[0].Rules = append(r.Chains[0].Rules, RecordedRule{"", []byte{7}}) }},
		{"chain cut_in: rule 1 is not (iif lo accept)", func(r *Record) { slices.Reverse(r.Chains[0].Rules) }},
		{"set refused4: another type", func(r *Record) { r.Sets[1].Definition = nil }},
		{"set refused4: element 0a is missing", func(r *Record) { r.Sets[1].Elements[0] = []byte{12} }},
		{"set refused4: has 3 elements, not 2", func(r *Record) { r.Sets[1].Elements = append(r.Sets[1].Elements, []byte{12}) }},
		{"set alive is missing", func(r *Record) { r.Sets = r.Sets[1:] }},
		{"object input type 1 is missing", func(r *Record) { r.Objects = r.Objects[1:] }},
		{"flowtable f was added", func(r *Record) { r.Flowtables = []string{"f"} }},
	} {
		changed := sample()
		test.change(&changed)
		if err := sample().Compare(changed); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}
