package adopt

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer refuses a connection whose other end is not this process's own user: root, for the plugin and for the agent (unix(7),
// SO_PEERCRED: the credentials of connect and listen, which can't be passed on).
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask who the peer is: %w", err)
	}
	var credentials *syscall.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		credentials, asked = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("ask who the peer is: %w", err)
	}
	if asked != nil {
		return fmt.Errorf("ask who the peer is: %w", asked)
	}
	return permit(credentials.Uid, os.Geteuid())
}

func permit(peer uint32, own int) error {
	if int64(peer) != int64(own) {
		return fmt.Errorf("%w (uid %d)", ErrPeer, peer)
	}
	return nil
}
