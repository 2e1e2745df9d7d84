package product

import (
	"fmt"
	"strings"
)

// Words splits a command as a shell would, as far as Holdfast's own fixes go: spaces, and single quotes.
func Words(command string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(command); rest != ""; rest = strings.TrimLeft(rest, " ") {
		word := ""
		for rest != "" && rest[0] != ' ' {
			if strings.ContainsRune("\"`$\\;&|<>", rune(rest[0])) {
				return nil, fmt.Errorf("command %q: only single quotes are understood", command)
			}
			if rest[0] != '\'' {
				word += rest[:1]
				rest = rest[1:]
				continue
			}
			quoted, after, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return nil, fmt.Errorf("command %q: a quote is not closed", command)
			}
			word += quoted
			rest = after
		}
		words = append(words, word)
	}
	return words, nil
}
