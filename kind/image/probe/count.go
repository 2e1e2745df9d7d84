package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// count prints a line for every packet to one of some TCP or UDP ports that any interface of this network namespace sees, whatever rules
// or programs do to it later (packet(7): a packet socket is before them), until a signal.
func count(ctx context.Context, wanted []string) error {
	want := map[uint16]bool{}
	for _, text := range wanted {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return fmt.Errorf("port %q: %w", text, err)
		}
		want[uint16(port)] = true
	}
	const all = 0x0300 // ETH_P_ALL, in network order
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, all)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer syscall.Close(socket)
	timeout := syscall.NsecToTimeval(int64(200 * time.Millisecond))
	if err := syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("set a timeout: %w", err)
	}
	buffer := make([]byte, 256)
	for ctx.Err() == nil {
		n, from, err := syscall.Recvfrom(socket, buffer, 0)
		if err != nil {
			continue // nothing came
		}
		link, _ := from.(*syscall.SockaddrLinklayer)
		if source, target, port := ports(buffer[:n]); link != nil && want[port] {
			name := strconv.Itoa(link.Ifindex)
			if i, err := net.InterfaceByIndex(link.Ifindex); err == nil {
				name = i.Name
			}
			fmt.Println(port, name, source, target)
		}
	}
	return nil
}

// ports reads an IP packet; the port is 0 where it has none.
func ports(packet []byte) (source, target net.IP, port uint16) {
	if len(packet) < 20 {
		return nil, nil, 0
	}
	payload, protocol := []byte(nil), byte(0)
	switch packet[0] >> 4 {
	case 4:
		header := int(packet[0]&15) * 4
		if len(packet) < header {
			return nil, nil, 0
		}
		source, target, protocol, payload = packet[12:16], packet[16:20], packet[9], packet[header:]
	case 6:
		if len(packet) < 40 {
			return nil, nil, 0
		}
		source, target, protocol, payload = packet[8:24], packet[24:40], packet[6], packet[40:]
	}
	if protocol != syscall.IPPROTO_TCP && protocol != syscall.IPPROTO_UDP || len(payload) < 4 {
		return nil, nil, 0
	}
	return source, target, binary.BigEndian.Uint16(payload[2:4])
}
