package adopt

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// Listener is the agent's socket. Until Release no other agent gets one of the same path, and when its process dies the
// kernel gives that right back. Close leaves the socket's name, which nobody answers any more: to remove it could remove a successor's.
type Listener struct {
	*net.UnixListener
	held *os.File
}

// Listen makes the socket, mode 0600, in a folder that it makes with mode 0700. A socket that a dead agent left is replaced in one
// step; ErrInUse means that its agent lives, ErrUnsafe that the folder isn't root's alone.
func Listen(path string) (*Listener, error) {
	if err := private(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	held, err := hold(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := bind(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), held.Close())
	}
	return &Listener{l, held}, nil
}

// Release lets another agent have the path, once nothing is at work any more that was asked for here. It closes the socket as well.
func (l *Listener) Release() error {
	err := l.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, l.held.Close())
}

func hold(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// bind makes the socket under another name, since bind fails where something is.
func bind(path string) (*net.UnixListener, error) {
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
