package chaining

import (
	"errors"
	"fmt"
)

// What an error of this package is about, for errors.Is. The message of the error itself names the place (a line and
// a column counted in characters from 1, or a path such as plugins[1].type) and ends with the fix.
var (
	// ErrEmpty: there is nothing but white space.
	ErrEmpty = errors.New("empty configuration")
	// ErrTooLarge: over MaxSize, nested too deep, or more values than any list has.
	ErrTooLarge = errors.New("configuration too large")
	// ErrSyntax: not one JSON text in UTF-8; also when it was cut short or something follows it.
	ErrSyntax = errors.New("not valid JSON")
	// ErrTemplate: a template that was never rendered.
	ErrTemplate = errors.New("unrendered template")
	// ErrDuplicateKey: a key twice in one object, or one that differs only by case from a key that counts.
	ErrDuplicateKey = errors.New("duplicate key")
	// ErrNoPlugins: the list names no plugin.
	ErrNoPlugins = errors.New("no plugins")
	// ErrInvalid: valid JSON, but a value that counts is missing or is not what CNI wants there.
	ErrInvalid = errors.New("invalid configuration")
	// ErrNoList: a directory has no list that a runtime would load.
	ErrNoList = errors.New("no network list")
	// ErrNotFile: what should be a file or a directory is neither, cannot be reached, or cannot be read.
	ErrNotFile = errors.New("not readable")
	// ErrRefused: a strategy cannot work here.
	ErrRefused = errors.New("strategy refused")
	// ErrIndex: an edit named a plugin the list does not have.
	ErrIndex = errors.New("no such plugin")
)

// fault is the one error type here: a place, one sentence with the fix, and the sentinel it belongs to.
type fault struct {
	place, text string
	kind        error
}

func newFault(kind error, place, format string, args ...any) *fault {
	return &fault{place: place, text: fmt.Sprintf(format, args...), kind: kind}
}

func (f *fault) Error() string {
	if f.place == "" {
		return f.text
	}
	return tail(f.place) + ": " + f.text
}

func (f *fault) Unwrap() error { return f.kind }

// under moves a fault found in a part of a value to its place in the whole; nil stays nil. Building paths on the way
// back keeps them free for the texts that have no fault.
func (f *fault) under(step string) *fault {
	if f != nil {
		f.place = join(step, f.place)
	}
	return f
}
