package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openNamespace does not wait, as opening a FIFO would.
func openNamespace(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil || file.Fd() > 2 {
		return file, err
	}
	// Where standard input was closed, the file got its number, and 0 is no namespace to the libraries.
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	return os.NewFile(uintptr(fd), path), errors.Join(err, file.Close())
}

// identify refuses what is not a network namespace, and the host's.
func identify(file *os.File) (ID, error) {
	var system unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &system); err != nil {
		return ID{}, fmt.Errorf("statfs: %w", err)
	}
	// ioctl_ns(2): NS_GET_NSTYPE returns the namespace's CLONE_NEW flag. Only files of nsfs may be asked.
	if int64(system.Type) != unix.NSFS_MAGIC {
		return ID{}, ErrNotNamespace
	}
	if kind, err := unix.IoctlRetInt(int(file.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return ID{}, ErrNotNamespace
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return ID{}, fmt.Errorf("stat: %w", err)
	}
	return idOf(&stat), refuseHost(idOf(&stat))
}

// errHidden means that process 1 does not show its namespace to a process of fewer capabilities (ptrace(2), access mode
// PTRACE_MODE_READ_FSCREDS).
var errHidden = errors.New("process 1 hides its network namespace")

// refuseHost knows two namespaces as the host's: this process's own, since whoever locks pods runs on the host, and that of process
// 1. If the latter is hidden, it is left to refuseNeighbour.
func refuseHost(id ID) error {
	for _, host := range []string{"/proc/self/ns/net", "/proc/1/ns/net"} {
		var stat unix.Stat_t
		err := unix.Stat(host, &stat)
		switch {
		case err == nil && id == idOf(&stat):
			return ErrHostNamespace
		case errors.Is(err, fs.ErrPermission):
			return errHidden
		case err != nil:
			return fmt.Errorf("tell it from the host's: stat %s: %w", host, err)
		}
	}
	return nil
}

// refuseNeighbour refuses the namespace that its thread is in if process 1 is in it too. Each namespace has files of its own behind
// /proc/<pid>/net, of numbers that no two have at once (fs/proc/proc_net.c, fs/proc/generic.c: proc_alloc_inum), and process 1 shows
// its to everybody.
func refuseNeighbour() error {
	var host, own unix.Stat_t
	if err := errors.Join(unix.Stat("/proc/1/net/netlink", &host), unix.Stat("/proc/thread-self/net/netlink", &own)); err != nil {
		return fmt.Errorf("tell it from the host's: stat of net/netlink: %w", err)
	}
	if idOf(&host) == idOf(&own) {
		return ErrHostNamespace
	}
	return nil
}

// isInside makes sure that the socket is in the namespace that was checked, and not in this process's: a library that takes the file
// descriptor 0 for none would open it there. SIOCGSKNS (include/uapi/linux/sockios.h) opens the namespace of a socket.
func isInside(socket int, id ID) error {
	ns, err := unix.IoctlRetInt(socket, unix.SIOCGSKNS)
	if err != nil {
		return fmt.Errorf("ask a socket for its namespace: %w", err)
	}
	defer func() { _ = unix.Close(ns) }()
	var stat unix.Stat_t
	if err := unix.Fstat(ns, &stat); err != nil {
		return fmt.Errorf("ask a socket for its namespace: %w", err)
	}
	if idOf(&stat) != id {
		return fmt.Errorf("a socket was opened in namespace %v, not in %v: %w", idOf(&stat), id, ErrHostNamespace)
	}
	return nil
}

func idOf(stat *unix.Stat_t) ID { return ID{Device: uint64(stat.Dev), Inode: stat.Ino} }
