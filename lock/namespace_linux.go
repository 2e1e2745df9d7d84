package lock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
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
	netfilter *socket // for nf_tables; nil after an error
	route     *socket // for the stamp; nil after an error

	monitors []*Monitor // that are open

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

// connect opens the sockets without which nothing is done. Before they are used, every Monitor leaves out the first.
func (n *Namespace) connect() error {
	sockets, err := n.dial(unix.NETLINK_NETFILTER, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	n.netfilter, n.route = sockets[0], sockets[1]
	for _, m := range n.monitors {
		err = errors.Join(err, m.leaveOut(n.netfilter))
	}
	if err != nil {
		return errors.Join(err, n.disconnect())
	}
	return nil
}

// home is the network namespace of this process. To look it up takes as long as the rest of a visit to another.
var home = sync.OnceValues(func() (int, error) { return unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0) })

// inside runs f on a thread that is in the namespace meanwhile.
func inside(namespace *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		own, err := home()
		if err == nil {
			if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err == nil {
				err = f()
				if back := unix.Setns(own, unix.CLONE_NEWNET); back != nil {
					// The thread, which is not unlocked, ends with this goroutine.
					done <- errors.Join(err, fmt.Errorf("go back to the own network namespace: %w", back))
					return
				}
			}
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

// handle is a library's, for what is seldom done. The caller closes it.
func (n *Namespace) handle(family int) (*links.Handle, error) {
	h, err := links.NewHandleAt(netns.NsHandle(n.file.Fd()), family)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket of family %d: %w", family, err)
	}
	return h, h.SetSocketTimeout(deadline)
}

func (n *Namespace) disconnect() error {
	err := errors.Join(n.netfilter.close(), n.route.close())
	n.netfilter, n.route = nil, nil
	return err
}

// begin takes the namespace for one operation. end gives it back.
func (n *Namespace) begin() error {
	n.mu.Lock()
	if n.netfilter == nil {
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
		n.netfilter.room = nil // an agent has a thousand of them
		return nil
	}
	return fmt.Errorf("%s in netns %q: %w", act, n.path, errors.Join(err, n.disconnect()))
}
