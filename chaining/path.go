package chaining

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// echo bounds, in bytes, what a message repeats of its input: enough to find the place, too little to flood a log or
// to spill what somebody put in a configuration.
const echo = 60

// member is the step of a path into an object: .key where that reads well, ["key"] elsewhere.
func member(key string) string {
	for i := 0; i < len(key); i++ {
		if c := key[i]; !isAlnum(c) && c != '_' && c != '-' {
			return "[" + quote(key) + "]"
		}
	}
	if key == "" || len(key) > echo {
		return "[" + quote(key) + "]"
	}
	return key
}

// element is the step of a path into an array.
func element(i int) string { return "[" + strconv.Itoa(i) + "]" }

func join(parent, child string) string {
	if parent == "" || child == "" || child[0] == '[' {
		return parent + child
	}
	return parent + "." + child
}

// quote shortens input and makes it safe to print.
func quote(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string {
	if len(s) <= echo {
		return s
	}
	cut := echo
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// tail keeps the end of a long path, which is the part that finds the place.
func tail(path string) string {
	if len(path) <= 2*echo {
		return path
	}
	cut := len(path) - 2*echo
	for cut < len(path) && !utf8.RuneStart(path[cut]) {
		cut++
	}
	return "…" + path[cut:]
}

// position tells a person where an offset is: lines and columns from 1, columns in characters as editors count them.
func position(data []byte, offset int) string {
	before := string(data[:min(max(offset, 0), len(data))])
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return "line " + strconv.Itoa(line) + ", column " + strconv.Itoa(column)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isAlnum(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }
