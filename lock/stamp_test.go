package lock

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestStampReadsWhatItWrites(t *testing.T) {
	for _, test := range []struct {
		stamp Stamp
		text  string
	}{
		{Stamp{Release: "v0.3.0", Rules: "0123abcd", Beat: 4242 * time.Second}, "holdfast/1 release=v0.3.0 rules=0123abcd beat=4242"},
		{Stamp{Release: strings.Repeat("r", 63), Rules: strings.Repeat("f", 64)}, "holdfast/1 release=" + strings.Repeat("r", 63) + " rules=" + strings.Repeat("f", 64) + " beat=0"},
		{Stamp{Beat: time.Minute, Cut: "an ephemeral container: beat=1 cut=2"}, "holdfast/1 beat=60 cut=an ephemeral container: beat=1 cut=2"},
	} {
		if got := test.stamp.String(); got != test.text || test.stamp.Validate() != nil {
			t.Errorf("wrote %q (%v), want %q", got, test.stamp.Validate(), test.text)
		}
		if got, err := ParseStamp(test.text); err != nil || got != test.stamp {
			t.Errorf("read %v (%v), want %v", got, err, test.stamp)
		}
	}
}

func TestParseStampRefuses(t *testing.T) {
	for _, text := range []string{
		"", "holdfast/1", "holdfast/1 ", "holdfast/2 release=a rules=b beat=1", "release=a rules=b beat=1", "my interface",
		"holdfast/1 release=a rules=b", "holdfast/1 release=a rules=b beat=", "holdfast/1 release=a rules=b beat=-1",
		"holdfast/1 release=a rules=b beat=01", "holdfast/1 release=a rules=b beat=1 ", "holdfast/1 release=a rules=b beat=1.5",
		"holdfast/1 release= rules=b beat=1", "holdfast/1 release=a rules= beat=1", "holdfast/1 release=a rules=g beat=1",
		"holdfast/1 rules=b release=a beat=1", "holdfast/1  release=a rules=b beat=1", "holdfast/1 release=a\nrules=b beat=1",
		"holdfast/1 release=a rules=b beat=99999999999", "holdfast/1 beat=1 cut=", "holdfast/1 beat=1 cut= x", "holdfast/1 beat=1",
		"holdfast/1 beat=1 cut=a\tb", "holdfast/1 release=a rules=b beat=1 cut=x", "holdfast/1 beat=1 cut=" + strings.Repeat("x", 255),
		"holdfast/1 release=" + strings.Repeat("r", 64) + " rules=b beat=1",
	} {
		if s, err := ParseStamp(text); !errors.Is(err, ErrStamp) {
			t.Errorf("%q: read %v (%v), want ErrStamp", text, s, err)
		}
	}
}

// Any reason makes a stamp that fits and can be read.
func TestCutStampFits(t *testing.T) {
	for reason, want := range map[string]string{
		"": "no reason was given", "\n\x00": "no reason was given", "told to\nby a person": "told to by a person", "  padded  ": "padded",
		"Grund: läuft ohne Sperre": "Grund: l uft ohne Sperre", strings.Repeat("long ", 100): strings.Repeat("long ", 45) + "lo",
	} {
		s := cutStamp(reason, 1234567*time.Second+time.Millisecond)
		if got, err := ParseStamp(s.String()); err != nil || got != s || len(s.String()) > stampMax {
			t.Errorf("%q: %q can't be read: %v", reason, s.String(), err)
		}
		if s.Cut != want {
			t.Errorf("%q: %q (%d), want %q (%d)", reason, s.Cut, len(s.Cut), want, len(want))
		}
	}
}
