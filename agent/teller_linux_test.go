package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

func TestClip(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""}, {"12345678", "12345678"}, {"123456789", "12345..."}, {"1234üabc", "1234..."}, {"123üabcd", "123ü..."}, {"1234\U0001f512", "1234\U0001f512"},
		{"123\U0001f512ab", "123..."}, {strings.Repeat("\x80", 9), "..."},
	} {
		if got := clip(test.text, 8); got != test.want {
			t.Errorf("%q: got %q", test.text, got)
		}
	}
}

// N14: what is told of a cut is no longer than the API server and the chart's policy allow, whatever reason somebody gave.
func TestALongReasonIsTold(t *testing.T) {
	for _, reason := range []string{strings.Repeat("because ", 1000), strings.Repeat("\U0001f512", 5000), strings.Repeat("ü", maxText)} {
		var note string
		teller := newTeller(func(_ *corev1.Pod, _, _, _, told string) { note = told })
		o := order{Requested, reason}
		teller.warn(&corev1.Pod{}, "Cut", "The pod was cut off from the network for good. "+o.String()+". Delete it; a new one gets its own lease")
		if len(note) > maxNote || !utf8.ValidString(note) || !strings.HasSuffix(note, "its own lease") {
			t.Errorf("the Event says %q", note)
		}
		teller.warn(&corev1.Pod{}, "NotAdopted", "x"+reason)
		if len(note) > maxNote || !utf8.ValidString(note) {
			t.Errorf("the Event says %q", note)
		}
		if text := o.String(); len(text) > 4096 || !utf8.ValidString(text) || !strings.HasPrefix(text, "Requested: "+reason[:100]) {
			t.Errorf("the annotation is %q", text)
		}
		if kept := fileOf(who{}, o); len(kept.Reason) > maxText {
			t.Errorf("%d bytes are remembered", len(kept.Reason))
		}
	}
}
