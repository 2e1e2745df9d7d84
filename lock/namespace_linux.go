package lock

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	links "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// deadline bounds each exchange with the kernel. Such an exchange takes milliseconds; nf_tables takes one at a time for each
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

	mu    sync.Mutex
	file  *os.File
	nft   *nftables.Conn
	conn  *netlink.Conn // the socket of nft
	links *links.Handle

	port atomic.Uint32 // the netlink address of conn

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
	hidden := errors.Is(err, errHidden)
	if err == nil || hidden {
		err = n.connect()
	}
	if err == nil && hidden {
		err = refuseNeighbour(n.conn)
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
	keep := func(conn *netlink.Conn) error { n.conn = conn; return nil }
	var err error
	if n.nft, err = nftables.New(nftables.WithNetNSFd(int(n.file.Fd())), nftables.AsLasting(), nftables.WithSockOptions(keep)); err != nil {
		return fmt.Errorf("open a netfilter socket: %w", err)
	}
	if err := errors.Join(isInside(n.conn, n.id), n.rememberPort()); err != nil {
		return err
	}
	n.links, err = n.handle(unix.NETLINK_ROUTE)
	return err
}

// rememberPort keeps the address of the socket: changes that were made through it are this Namespace's own.
func (n *Namespace) rememberPort() error {
	return control(n.conn, func(fd int) error {
		address, err := unix.Getsockname(fd)
		if own, ok := address.(*unix.SockaddrNetlink); ok {
			n.port.Store(own.Pid)
		}
		return wrap("read a socket's address", err)
	})
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
	if n.nft != nil {
		errs = append(errs, n.nft.CloseLasting())
	}
	if n.links != nil {
		errs = append(errs, n.links.Close())
	}
	n.nft, n.conn, n.links = nil, nil, nil
	return errors.Join(errs...)
}

// begin takes the namespace for one operation, which is to end by its deadline. end gives it back.
func (n *Namespace) begin() error {
	n.mu.Lock()
	if n.nft == nil {
		if err := n.connect(); err != nil {
			n.mu.Unlock()
			return fmt.Errorf("netns %q: %w", n.path, err)
		}
	}
	if err := n.conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		n.mu.Unlock()
		return fmt.Errorf("netns %q: %w", n.path, err)
	}
	return nil
}

// commit sends what was gathered, as one transaction.
func (n *Namespace) commit() error {
	err := n.nft.Flush()
	if err == nil {
		n.commits++
	}
	return err
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
