package lock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	links "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// deadline bounds each wait for the kernel. Such an exchange takes milliseconds; nf_tables takes one at a time for each
// namespace, and its own clean-up may hold it up.
const deadline = 5 * time.Second

// ID tells network namespaces apart for as long as both exist: the device and inode of nsfs.
type ID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Namespace is a pod's network namespace, held open: its sockets were opened inside, so that no operation switches namespaces. It
// keeps the namespace alive until it is closed. Its methods may be called from several goroutines, and go one at a time.
type Namespace struct {
	path string
	id   ID

	hidden bool // process 1 doesn't show its namespace: from inside it is known whether this is the same

	mu        sync.Mutex
	file      *os.File
	netfilter int           // the socket for nf_tables; 0 is none
	links     *links.Handle // the one for links, opened when it is first used, which a plugin never does

	sequence uint32 // of the last request

	port atomic.Uint32 // the netlink address of netfilter

	// commits are the transactions that went through this Namespace; readAt is the generation at which it last read all, when they
	// were commitsThen.
	commits, commitsThen, readAt uint32
}

// Open opens the network namespace at the path: what a runtime hands to CNI plugins, or /proc/<pid>/ns/net. It fails with
// ErrGone, ErrNotNamespace or ErrHostNamespace. It takes CAP_SYS_ADMIN.
func Open(path string) (*Namespace, error) {
	file, err := openNamespace(path)
	if err != nil {
		return nil, fmt.Errorf("open netns %q: %w", path, err)
	}
	n := &Namespace{path: path, file: file}
	n.id, err = identify(file)
	n.hidden = errors.Is(err, errHidden)
	if err == nil || n.hidden {
		err = n.connect()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open netns %q: %w", path, err), n.Close())
	}
	return n, nil
}

// Path is what Open was given, ID what was there.
func (n *Namespace) Path() string { return n.path }

// ID returns the namespace's identity.
func (n *Namespace) ID() ID { return n.id }

// Close lets go of the namespace.
func (n *Namespace) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.disconnect(), n.file.Close())
}

// connect opens the sockets inside the namespace.
func (n *Namespace) connect() error {
	// One that blocks, since nf_tables has answered before the sending returns.
	err := inside(n.file, func() error {
		if n.hidden {
			if err := refuseNeighbour(); err != nil {
				return err
			}
		}
		socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		if err == nil {
			n.netfilter = socket
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("open a netfilter socket: %w", err)
	}
	limit := unix.NsecToTimeval(deadline.Nanoseconds())
	return errors.Join(
		wrap("limit how long a socket waits", errors.Join(
			unix.SetsockoptTimeval(n.netfilter, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit), unix.SetsockoptTimeval(n.netfilter, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		)),
		isInside(n.netfilter, n.id), n.rememberPort(),
	)
}

// inside runs f on a thread that is in the namespace meanwhile.
func inside(namespace *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err == nil {
				err = f()
				if back := unix.Setns(own, unix.CLONE_NEWNET); back != nil {
					// The thread, which is not unlocked, ends with this goroutine.
					done <- errors.Join(err, fmt.Errorf("go back to the own network namespace: %w", back), unix.Close(own))
					return
				}
			}
			err = errors.Join(err, unix.Close(own))
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

// route is the socket for links.
func (n *Namespace) route() (*links.Handle, error) {
	if n.links != nil {
		return n.links, nil
	}
	var err error
	n.links, err = n.handle(unix.NETLINK_ROUTE)
	return n.links, err
}

// rememberPort keeps the address of the socket: changes that were made through it are this Namespace's own.
func (n *Namespace) rememberPort() error {
	if err := unix.Bind(n.netfilter, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("give a socket an address: %w", err)
	}
	address, err := unix.Getsockname(n.netfilter)
	if own, ok := address.(*unix.SockaddrNetlink); ok {
		n.port.Store(own.Pid)
	}
	return wrap("read a socket's address", err)
}

func (n *Namespace) handle(family int) (*links.Handle, error) {
	h, err := links.NewHandleAt(netns.NsHandle(n.file.Fd()), family)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket of family %d: %w", family, err)
	}
	return h, h.SetSocketTimeout(deadline)
}

func (n *Namespace) disconnect() error {
	var errs []error
	if n.netfilter != 0 {
		errs = append(errs, unix.Close(n.netfilter))
	}
	if n.links != nil {
		errs = append(errs, n.links.Close())
	}
	n.netfilter, n.links = 0, nil
	return errors.Join(errs...)
}

// begin takes the namespace for one operation. end gives it back.
func (n *Namespace) begin() error {
	n.mu.Lock()
	if n.netfilter == 0 {
		if err := n.connect(); err != nil {
			n.mu.Unlock()
			return fmt.Errorf("netns %q: %w", n.path, err)
		}
	}
	return nil
}

// end also closes the sockets after an error: an answer that came too late must not be read as that to the next request. The next
// operation opens new ones.
func (n *Namespace) end(act string, err error) error {
	defer n.mu.Unlock()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s in netns %q: %w", act, n.path, errors.Join(err, n.disconnect()))
}
