package chaining

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxSize is the number of bytes accepted by any parser of this package. Real lists have a few thousand; a ConfigMap
// can't hold more than this (Kubernetes, core/v1 MaxSecretSize).
const MaxSize = 1 << 20

const (
	maxDepth  = 64      // real lists have about eight levels
	maxValues = 1 << 16 // bounds memory: a byte of input can become a value of a hundred bytes
)

// space is the white space of JSON (RFC 8259, section 2), which is less than that of Unicode.
const space = " \t\r\n"

// node is a JSON value with its place in the text it was parsed from.
type node struct {
	key        string // name within the object that holds it
	text       string // what a string says, or a number as it was written
	kids       []node // members or elements, in the order of the text
	start, end int32  // in bytes, see MaxSize
	kind       jsontext.Kind
}

func (n *node) member(key string) *node {
	if n.kind == '{' {
		for i := range n.kids {
			if n.kids[i].key == key {
				return &n.kids[i]
			}
		}
	}
	return nil
}

// step is the path from the value that holds n to n, its i-th.
func (n *node) step(kid int) string {
	if n.kind == '[' {
		return element(kid)
	}
	return member(n.kids[kid].key)
}

// reader makes nodes of tokens. jsontext refuses what RFC 7493 (I-JSON) refuses: duplicate names, invalid UTF-8.
type reader struct {
	data    []byte
	dec     *jsontext.Decoder
	values  int
	pending []node // read, and not yet with what holds them: saves growing a slice for each
}

// parse reads exactly one JSON value of any kind.
func parse(data []byte) (node, error) {
	switch {
	case len(data) > MaxSize:
		return node{}, newFault(ErrTooLarge, "", "%d bytes where at most %d are read: give a CNI configuration, nothing else", len(data), MaxSize)
	case len(bytes.Trim(data, space)) == 0:
		return node{}, newFault(ErrEmpty, "", "empty: write the configuration again, in one rename")
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return node{}, newFault(ErrSyntax, position(data, 0), "a byte order mark: save the text as UTF-8 without one")
	}
	r := reader{data: data, dec: jsontext.NewDecoder(bytes.NewBuffer(data))}
	root, err := r.read(0)
	if err != nil {
		return node{}, err
	}
	if rest := bytes.TrimLeft(data[root.end:], space); len(rest) > 0 {
		return node{}, r.fault(ErrSyntax, len(data)-len(rest), "something follows the end of the configuration: remove it")
	}
	return root, nil
}

// next is where the next token begins, if what separates it from the last one is right; the decoder checks that.
func (r *reader) next() int {
	at := int(r.dec.InputOffset())
	for at < len(r.data) && strings.IndexByte(space+",:", r.data[at]) >= 0 {
		at++
	}
	return at
}

func (r *reader) read(depth int) (node, error) {
	at := r.next()
	tok, err := r.dec.ReadToken()
	if err != nil {
		return node{}, r.syntax(err)
	}
	n := node{kind: tok.Kind(), start: int32(at)}
	if r.values++; r.values > maxValues {
		return node{}, r.fault(ErrTooLarge, at, "more than %d values: give a CNI configuration, nothing else", maxValues)
	}
	switch n.kind {
	case '"':
		n.text = tok.String()
	case '0':
		n.text = string(r.data[at:r.dec.InputOffset()])
		if hugeExponent(n.text) {
			return node{}, r.fault(ErrInvalid, at, "a number with an exponent that no reader can hold: write it shorter")
		}
	case '{', '[':
		if depth == maxDepth {
			return node{}, r.fault(ErrTooLarge, at, "nested deeper than %d levels: flatten it", maxDepth)
		}
		if n.kids, err = r.readKids(n.kind == '{', depth+1); err != nil {
			return node{}, err
		}
	}
	n.end = int32(r.dec.InputOffset())
	return n, nil
}

// readKids reads what is inside an object or an array, and its closing token.
func (r *reader) readKids(named bool, depth int) ([]node, error) {
	mark := len(r.pending)
	for {
		if kind := r.dec.PeekKind(); kind == '}' || kind == ']' {
			if _, err := r.dec.ReadToken(); err != nil {
				return nil, r.syntax(err)
			}
			kids := slices.Clone(r.pending[mark:])
			r.pending = r.pending[:mark]
			return kids, nil
		}
		key := ""
		if named {
			tok, err := r.dec.ReadToken()
			if err != nil {
				return nil, r.syntax(err)
			}
			key = tok.String()
		}
		kid, err := r.read(depth)
		if err != nil {
			return nil, err
		}
		kid.key = key
		r.pending = append(r.pending, kid)
	}
}

func (r *reader) fault(kind error, at int, format string, args ...any) error {
	return newFault(kind, position(r.data, at), format, args...)
}

// syntax says in our words what the decoder refused.
func (r *reader) syntax(err error) error {
	var refused *jsontext.SyntacticError
	if !errors.As(err, &refused) {
		return r.fault(ErrSyntax, len(r.data), "the text ends too early: complete it")
	}
	at := int(refused.ByteOffset)
	switch {
	case r.brace(at - 1): // the decoder stumbles over the second brace
		return r.fault(ErrTemplate, at-1, "a template that was never rendered: write what it stands for")
	case refused.Err == jsontext.ErrDuplicateName:
		return r.fault(ErrDuplicateKey, at, "duplicate key %s: remove one", quote(refused.JSONPointer.LastToken()))
	case errors.Is(refused.Err, io.ErrUnexpectedEOF):
		return r.fault(ErrSyntax, len(r.data), "the text ends too early: complete it")
	}
	return r.fault(ErrSyntax, at, "%s: correct it there", shorten(refused.Err.Error()))
}

func (r *reader) brace(at int) bool { return at >= 0 && bytes.HasPrefix(r.data[at:], []byte("{{")) }
