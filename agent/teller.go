package agent

import (
	"fmt"
	"hash/crc32"
	"log/slog"
	"sync"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// maxNote is the API server's limit for an Event's text, in bytes (pkg/apis/core/validation: NoteLengthLimit).
const maxNote = 1024

// teller tells people, in the log and as Events of pods. The same failure is logged once, until it is another.
type teller struct {
	event func(about *corev1.Pod, kind, reason, action, note string)

	mu     sync.Mutex
	failed map[string]string
}

func newTeller(event func(about *corev1.Pod, kind, reason, action, note string)) *teller {
	return &teller{event: event, failed: map[string]string{}}
}

// warn makes an Event of something that is wrong with a pod.
func (t *teller) warn(pod *corev1.Pod, reason, note string) {
	t.say(pod, corev1.EventTypeWarning, reason, note)
}

func (t *teller) say(pod *corev1.Pod, kind, reason, note string) {
	if pod == nil {
		return
	}
	note = clip(note, maxNote)
	// client-go takes Events that differ in their note alone for one (tools/events: getKey).
	t.event(pod, kind, reason, fmt.Sprintf("%s-%08x", reason, crc32.ChecksumIEEE([]byte(note))), note)
}

// clip shortens a text to that many bytes, and no character in half.
func clip(text string, most int) string {
	const more = "..."
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// failing logs what fails once, until it fails in another way; nil: it works again.
func (t *teller) failing(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		if t.failed[what] != "" {
			delete(t.failed, what)
			slog.Info("works again", "what", what)
		}
		return
	}
	if text := err.Error(); t.failed[what] != text {
		t.failed[what] = text
		slog.Error(what, "reason", text)
	}
}

// over forgets a failure: it is done, or there is nothing any more that could fail.
func (t *teller) over(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failed, what)
}
