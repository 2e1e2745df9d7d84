package install

import (
	"fmt"
	"hash/crc32"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
)

// teller tells people what changed, once: in the log and as Events of the Node. A hostile neighbour floods neither.
type teller struct {
	event    func(about *corev1.Node, kind, reason, action, note string)
	told     bool
	open     bool
	reason   chaining.Reason
	message  string
	failures map[string]string // by what failed
	repairs  *rate.Limiter
	unsaid   int // repairs since one was logged
}

func newTeller(event func(about *corev1.Node, kind, reason, action, note string)) *teller {
	return &teller{event: event, failures: map[string]string{}, repairs: rate.NewLimiter(rate.Every(10*time.Second), 5)}
}

// decided tells of a node that opened, closed, or is closed for another reason.
func (t *teller) decided(n *corev1.Node, g *gate, message string) {
	same := t.told && t.open == g.open && t.reason == g.reason
	if same && t.message == message {
		return
	}
	t.told, t.open, t.reason, t.message = true, g.open, g.reason, message
	if same {
		t.repaired("node as before", "node", n.Name, "reason", g.reason, "message", message)
		return
	}
	if g.open {
		slog.Info("node open", "node", n.Name, "message", message)
		t.event(n, corev1.EventTypeNormal, "Chained", action("Open", message), message)
		return
	}
	slog.Warn("node closed", "node", n.Name, "reason", g.reason, "message", message)
	t.event(n, corev1.EventTypeWarning, string(g.reason), action("Close", message), message)
}

// left tells that a node was taken out.
func (t *teller) left(n *corev1.Node, message string) {
	t.told = false
	slog.Info("node taken out", "node", n.Name, "message", message)
	t.event(n, corev1.EventTypeNormal, "TakenOut", action("TakeOut", message), message)
}

// action tells Events apart that differ in their note alone: client-go takes them for one else (tools/events: getKey).
func action(verb, note string) string {
	return fmt.Sprintf("%s-%08x", verb, crc32.ChecksumIEEE([]byte(note)))
}

// starting tells what is waited for.
func (t *teller) starting(what string, err error) {
	if err != nil {
		t.failed("waiting for "+what, err)
	}
}

// failed logs what fails once, until it fails in another way.
func (t *teller) failed(what string, err error) {
	if text := err.Error(); t.failures[what] != text {
		t.failures[what] = text
		slog.Error(what, "reason", text)
	}
}

// repaired logs what was done, but not all of what happens all the time.
func (t *teller) repaired(what string, args ...any) {
	if !t.repairs.Allow() {
		t.unsaid++
		return
	}
	slog.Info(what, append(args, "unsaid", t.unsaid)...)
	t.unsaid = 0
}
