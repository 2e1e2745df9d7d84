package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	width  = 118
	indent = "   "
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// teller writes for people. Colour codes are for terminals alone.
type teller struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
}

func newTeller(out io.Writer) *teller {
	t := &teller{out: out}
	if file, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		info, err := file.Stat()
		t.colour = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return t
}

func (t *teller) line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(t.out, text)
}

// begin announces a step.
func (t *teller) begin(number int, title string) {
	heading := fmt.Sprintf("%d. %s", number, title)
	if t.colour {
		heading = bold + heading + plain
	}
	t.line("\n" + heading)
}

// say is a sentence about what is done or seen.
func (t *teller) say(format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), width-len(indent)) {
		t.line(indent + line)
	}
}

// command is what a person would type. Here the same is done without that tool.
func (t *teller) command(format string, args ...any) {
	t.line(indent + "$ " + fmt.Sprintf(format, args...))
}

// show is text from the cluster, as it is.
func (t *teller) show(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		t.line(strings.TrimRight(indent+"  | "+line, " "))
	}
}

// wrap breaks a text at spaces; the lines after the first are indented.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = "  " + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// busy says every so often what takes long, until the function it returns is called.
func (t *teller) busy(what string) (done func()) {
	const patience = 10 * time.Second
	began, stop := time.Now(), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(patience)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				t.say("… still %s (%.0f s)", what, time.Since(began).Seconds())
			}
		}
	})
	return func() {
		close(stop)
		group.Wait()
	}
}
