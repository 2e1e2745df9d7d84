package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// openNamespace does not wait, as opening a FIFO would.
func openNamespace(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	return file, err
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

// refuseNeighbour refuses the namespace that the socket is in if process 1 is in it too: then its list of netlink sockets, which it
// shows to everybody, has the socket's inode in the last column (net/netlink/af_netlink.c: netlink_native_seq_show).
func refuseNeighbour(conn *netlink.Conn) error {
	var inode uint64
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("tell it from the host's: %w", err)
	}
	var statErr error
	if err := raw.Control(func(fd uintptr) {
		var stat unix.Stat_t
		statErr = unix.Fstat(int(fd), &stat)
		inode = stat.Ino
	}); err != nil || statErr != nil {
		return fmt.Errorf("tell it from the host's: stat of a socket: %w", errors.Join(err, statErr))
	}
	list, err := os.ReadFile("/proc/1/net/netlink")
	if err != nil {
		return fmt.Errorf("tell it from the host's: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == strconv.FormatUint(inode, 10) {
			return ErrHostNamespace
		}
	}
	return nil
}

func idOf(stat *unix.Stat_t) ID { return ID{Device: uint64(stat.Dev), Inode: stat.Ino} }
