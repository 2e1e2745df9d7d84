package lock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Stamp is what the alias of the pod's link lo says. Any process of the pod can read it; to write it takes CAP_NET_ADMIN over the
// namespace.
type Stamp struct {
	// Release is the agent's, at most 63 bytes, letters, digits and "._+-".
	Release string
	// Rules is the digest of the rules that were verified in the namespace.
	Rules string
	// Beat is when it was written: time since boot, suspension included (CLOCK_BOOTTIME), in whole seconds. Containers share
	// the clock unless they are in a time namespace, which Kubernetes does not make.
	Beat time.Duration
	// Cut is why the pod was cut off, a line; empty while it is not. A cut stamp has no Release and no Rules.
	Cut string
}

const (
	stampVersion = "holdfast/1"
	// stampMax is IFALIASZ less its end (include/uapi/linux/if.h; net/core/dev.c: dev_set_alias refuses more).
	stampMax   = 255
	releaseMax = 63
	digestMax  = 64
)

// String writes `holdfast/1 release=… rules=… beat=…`, or `holdfast/1 beat=… cut=…`.
func (s Stamp) String() string {
	beat := strconv.FormatInt(int64(s.Beat/time.Second), 10)
	if s.Cut != "" {
		return stampVersion + " beat=" + beat + " cut=" + s.Cut
	}
	return stampVersion + " release=" + s.Release + " rules=" + s.Rules + " beat=" + beat
}

// Validate says what keeps s from being written and read back as it is.
func (s Stamp) Validate() error {
	if s.Beat < 0 || s.Beat%time.Second != 0 {
		return fmt.Errorf("stamp: beat %v: not a whole number of seconds since boot", s.Beat)
	}
	if s.Cut != "" {
		if s.Release != "" || s.Rules != "" {
			return fmt.Errorf("stamp: has a release or rules beside the cut; leave them out")
		}
		if s.Cut != line(s.Cut) || len(s.String()) > stampMax {
			return fmt.Errorf("stamp: cut %q: not one printable line that fits; shorten it", s.Cut)
		}
		return nil
	}
	if !within(s.Release, releaseMax, releaseChar) {
		return fmt.Errorf("stamp: release %q: not 1 to %d letters, digits or ._+-", s.Release, releaseMax)
	}
	if !within(s.Rules, digestMax, digestChar) {
		return fmt.Errorf("stamp: rules %q: not a digest of 1 to %d hexadecimal digits", s.Rules, digestMax)
	}
	return nil
}

// ParseStamp reads what String writes, and nothing else: a text that it would write differently is ErrStamp.
func ParseStamp(text string) (Stamp, error) {
	var s Stamp
	rest, ours := strings.CutPrefix(text, stampVersion+" ")
	if !ours || len(text) > stampMax {
		return Stamp{}, fmt.Errorf("parse %q: %w", clip(text), ErrStamp)
	}
	beat := ""
	if after, cut := strings.CutPrefix(rest, "beat="); cut {
		beat, s.Cut, _ = strings.Cut(after, " cut=")
	} else {
		rest, beat, _ = strings.Cut(rest, " beat=")
		rest, s.Rules, _ = strings.Cut(rest, " rules=")
		s.Release = strings.TrimPrefix(rest, "release=")
	}
	seconds, err := strconv.ParseInt(beat, 10, 32)
	if err != nil {
		return Stamp{}, fmt.Errorf("parse %q: beat %q: %w", clip(text), clip(beat), ErrStamp)
	}
	s.Beat = time.Duration(seconds) * time.Second
	if s.Validate() != nil || s.String() != text {
		return Stamp{}, fmt.Errorf("parse %q: %w", clip(text), ErrStamp)
	}
	return s, nil
}

// cutStamp fits any reason into a stamp.
func cutStamp(reason string, beat time.Duration) Stamp {
	s := Stamp{Beat: beat.Truncate(time.Second), Cut: line(reason)}
	if s.Cut == "" {
		s.Cut = "no reason was given"
	}
	if over := len(s.String()) - stampMax; over > 0 {
		s.Cut = strings.TrimSpace(s.Cut[:len(s.Cut)-over])
	}
	return s
}

// line keeps printable ASCII, blanks only between words: what any terminal and `ip link` show as it is.
func line(text string) string {
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}

func within(text string, most int, allowed func(byte) bool) bool {
	for i := range len(text) {
		if !allowed(text[i]) {
			return false
		}
	}
	return text != "" && len(text) <= most
}

func digestChar(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

func releaseChar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("._+-", c) >= 0
}

func clip(text string) string { return text[:min(len(text), 64)] }
