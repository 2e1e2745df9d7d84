package chaining

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is where Linux gives up as well (include/linux/namei.h, MAXSYMLINKS).
const maxLinks = 40

// Follow resolves the links in a path as a host whose root is fsys would: an absolute target starts at the root of
// fsys, and nothing leads out of it. So a copied directory is read as it was on its node. The path that comes back has
// no links. An fsys without links (no [fs.ReadLinkFS]) is read as it is.
func Follow(fsys fs.FS, name string) (string, error) {
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		step := rest[0]
		rest = rest[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, step)
		info, err := fs.Lstat(fsys, next)
		if err != nil {
			return "", err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", newFault(ErrNotFile, name, "more than %d links: remove the loop", maxLinks)
		}
		target, err := fs.ReadLink(fsys, next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// content is a file's bytes, and one more than MaxSize where there are more; or why there are none. Broken reports that
// the runtime cannot read it either.
func content(fsys fs.FS, name string) (data []byte, err error, broken bool) {
	if !fs.ValidPath(name) {
		return nil, newFault(ErrNotFile, "", "a name that is not UTF-8, so that only the runtime can read it: rename or remove it"), false
	}
	at, err := Follow(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNotFile):
		return nil, newFault(ErrNotFile, "", "a link that leads nowhere: remove it, or restore what it names"), true
	case err != nil:
		return nil, newFault(ErrNotFile, "", "cannot be reached (%s): look as a user who may read it", reasonOf(err)), false
	}
	info, err := fs.Lstat(fsys, at)
	switch {
	case err != nil:
		return nil, newFault(ErrNotFile, "", "gone while it was read: look again"), false
	case info.IsDir():
		return nil, newFault(ErrNotFile, "", "a directory where a file is read: remove it"), true
	case !info.Mode().IsRegular(): // a pipe would block whoever opens it, the runtime too
		return nil, newFault(ErrNotFile, "", "not a regular file: remove it"), false
	}
	file, err := fsys.Open(at)
	if err != nil {
		return nil, newFault(ErrNotFile, "", "cannot be opened (%s): look as a user who may read it", reasonOf(err)), false
	}
	defer file.Close()
	if data, err = io.ReadAll(io.LimitReader(file, MaxSize+1)); err != nil {
		return nil, newFault(ErrNotFile, "", "cannot be read (%s): look as a user who may read it", reasonOf(err)), false
	}
	return data, nil, false
}

// permissions are those of a file, or of what a link leads to; 0 where they cannot be told.
func permissions(fsys fs.FS, name string) fs.FileMode {
	at, err := Follow(fsys, name)
	if err != nil {
		return 0
	}
	info, err := fs.Lstat(fsys, at)
	if err != nil {
		return 0
	}
	return info.Mode().Perm()
}

// reasonOf leaves out the path of an error, which its place already says.
func reasonOf(err error) string {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err.Error()
	}
	return err.Error()
}
