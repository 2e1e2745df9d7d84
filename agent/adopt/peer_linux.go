package adopt

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer refuses a socket whose other end is not this process's own user: root, for the plugin and for the agent (unix(7),
// SO_PEERCRED: the credentials of connect and listen, which can't be passed on).
func checkPeer(fd int) error {
	credentials, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("ask who the peer is: %w", err)
	}
	return permit(credentials.Uid, os.Geteuid())
}

func checkPeerOf(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask who the peer is: %w", err)
	}
	var checked error
	if err := raw.Control(func(fd uintptr) { checked = checkPeer(int(fd)) }); err != nil {
		return fmt.Errorf("ask who the peer is: %w", err)
	}
	return checked
}

func permit(peer uint32, own int) error {
	if int64(peer) != int64(own) {
		return fmt.Errorf("%w (uid %d)", ErrPeer, peer)
	}
	return nil
}
