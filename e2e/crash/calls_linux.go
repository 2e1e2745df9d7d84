package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// call is one of interest.
type call struct {
	number     int
	name       string
	kind       Kind
	path, to   string
	descriptor int // of the file that it is about, for calls that take one; else -1
	fail       syscall.Errno
}

// spec says where a call's arguments are.
type spec struct {
	name  string
	kind  Kind
	at    int // argument with the directory's descriptor, the path after it; -1: none
	to    int // the same for the second path
	file  int // argument with the file's descriptor
	flags int // argument with flags, of which one of need must be set
	need  uint64
}

// specs are the calls that change a file system and that Go's os package, or a copy within the kernel, may make. That none was
// forgotten shows in the end: what was recorded must be what is there.
var specs = map[uint64]spec{
	unix.SYS_OPENAT:          {name: "openat", kind: Create, at: 0, to: -1, file: -1, flags: 2, need: unix.O_CREAT | unix.O_TRUNC},
	unix.SYS_WRITE:           {name: "write", kind: Content, at: -1, to: -1, file: 0},
	unix.SYS_PWRITE64:        {name: "pwrite64", kind: Content, at: -1, to: -1, file: 0},
	unix.SYS_WRITEV:          {name: "writev", kind: Content, at: -1, to: -1, file: 0},
	unix.SYS_COPY_FILE_RANGE: {name: "copy_file_range", kind: Content, at: -1, to: -1, file: 2},
	unix.SYS_SENDFILE:        {name: "sendfile", kind: Content, at: -1, to: -1, file: 0},
	unix.SYS_SPLICE:          {name: "splice", kind: Content, at: -1, to: -1, file: 2},
	unix.SYS_FTRUNCATE:       {name: "ftruncate", kind: Content, at: -1, to: -1, file: 0},
	unix.SYS_FCHMOD:          {name: "fchmod", kind: Content, at: -1, to: -1, file: 0},
	unix.SYS_FCHMODAT:        {name: "fchmodat", kind: Content, at: 0, to: -1, file: -1},
	unix.SYS_FCHMODAT2:       {name: "fchmodat2", kind: Content, at: 0, to: -1, file: -1},
	unix.SYS_FSYNC:           {name: "fsync", kind: Sync, at: -1, to: -1, file: 0},
	unix.SYS_FDATASYNC:       {name: "fdatasync", kind: Sync, at: -1, to: -1, file: 0},
	unix.SYS_MKDIRAT:         {name: "mkdirat", kind: Mkdir, at: 0, to: -1, file: -1},
	unix.SYS_UNLINKAT:        {name: "unlinkat", kind: Remove, at: 0, to: -1, file: -1},
	unix.SYS_RENAMEAT:        {name: "renameat", kind: Rename, at: 0, to: 2, file: -1},
	unix.SYS_RENAMEAT2:       {name: "renameat2", kind: Rename, at: 0, to: 2, file: -1},
}

// decode returns nil for what is of no interest.
func (t *tracer) decode(info callState) *call {
	s, found := specs[info.value]
	if !found || s.need != 0 && info.args[s.flags]&s.need == 0 {
		return nil
	}
	c := &call{name: s.name, kind: s.kind, descriptor: -1}
	switch {
	case s.file >= 0:
		c.descriptor = int(int32(info.args[s.file]))
		c.path = t.descriptor(c.descriptor)
	default:
		c.path = t.resolve(info.args[s.at], info.args[s.at+1])
	}
	if s.to >= 0 {
		c.to = t.resolve(info.args[s.to], info.args[s.to+1])
	}
	if !t.interesting(c.path) && !t.interesting(c.to) {
		return nil
	}
	return c
}

func (t *tracer) interesting(path string) bool {
	return slices.ContainsFunc(t.process.Dirs, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// descriptor is the path of an open file; empty where it has none.
func (t *tracer) descriptor(fd int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd))
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	return path
}

func (t *tracer) resolve(dirfd, pointer uint64) string {
	name := t.text(pointer)
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	if fd := int(int32(dirfd)); fd != unix.AT_FDCWD {
		return filepath.Join(t.descriptor(fd), name)
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.pid))
	if err != nil {
		return ""
	}
	return filepath.Join(at, name)
}

// text reads a path from the process.
func (t *tracer) text(pointer uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.pid)) // of the program it is now
	if err != nil {
		return ""
	}
	defer memory.Close()
	var buffer [unix.PathMax]byte
	n, _ := memory.ReadAt(buffer[:], int64(pointer)) // short at the end of a mapping
	text, _, found := bytes.Cut(buffer[:n], []byte{0})
	if !found {
		return ""
	}
	return string(text)
}

// done is what a call that succeeded did; of a file that was written, all that is in it now.
func (t *tracer) done(c *call) (Op, error) {
	op := Op{Kind: c.kind, Path: c.path, To: c.to}
	if c.kind != Content && c.kind != Create && c.kind != Mkdir {
		return op, nil
	}
	from := c.path
	if c.descriptor >= 0 {
		from = fmt.Sprintf("/proc/%d/fd/%d", t.pid, c.descriptor)
	}
	info, err := os.Stat(from)
	if err != nil {
		return op, err
	}
	op.Mode = info.Mode()
	if info.IsDir() {
		return op, nil
	}
	op.Data, err = os.ReadFile(from)
	return op, err
}
