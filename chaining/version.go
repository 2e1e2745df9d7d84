package chaining

import (
	"slices"
	"strconv"
	"strings"
)

// newestVersion is the newest CNI specification libcni v1.3.1 knows (pkg/version/version.go, Current).
var newestVersion = version{1, 1, 0}

// version is a CNI specification's version.
type version [3]int

func (v version) compare(w version) int { return slices.Compare(v[:], w[:]) }

func (v version) String() string {
	return strconv.Itoa(v[0]) + "." + strconv.Itoa(v[1]) + "." + strconv.Itoa(v[2])
}

// parseVersion takes only the one spelling plugins compare with, as strings: "1.0" or "01.0.0" is a version to
// libcni's parser, and then no plugin supports it.
func parseVersion(text string) (version, bool) {
	var v version
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return v, false
		}
		v[i] = int(n)
	}
	return v, v.String() == text
}

// listVersion is the version libcni would use for a list (libcni/conf.go, NetworkConfFromBytes): the newest one it
// knows among cniVersions and cniVersion, else cniVersion as it stands.
func listVersion(list *node) (string, *fault) {
	given, f := givenVersion(list)
	offered := list.member("cniVersions")
	if f != nil || offered == nil {
		return given, f
	}
	if offered.kind != '[' {
		return "", newFault(ErrInvalid, "cniVersions", "must be an array of versions: write [\"1.0.0\"] or remove it")
	}
	var known []version
	if v, ok := parseVersion(given); ok {
		known = append(known, v)
	}
	for i := range offered.kids {
		v, ok := parseVersion(offered.kids[i].text) // only a string can look like one
		if !ok {
			return "", newFault(ErrInvalid, join("cniVersions", element(i)), "not a version: write it as \"1.0.0\"")
		}
		known = append(known, v)
	}
	known = slices.DeleteFunc(known, func(v version) bool { return v.compare(newestVersion) > 0 })
	if len(known) == 0 {
		return given, nil
	}
	return slices.MaxFunc(known, version.compare).String(), nil
}

// givenVersion is the cniVersion of a list or of a single configuration. Absent and empty are one: 0.1.0, as libcni
// reads them, and libcni itself writes the empty one when it makes a list of a single configuration.
func givenVersion(object *node) (string, *fault) {
	given := object.member("cniVersion")
	if given == nil {
		return "", nil
	}
	if _, ok := parseVersion(given.text); given.kind != '"' || !ok && given.text != "" {
		return "", newFault(ErrInvalid, "cniVersion", "not a version: write it as \"1.0.0\"")
	}
	return given.text, nil
}
