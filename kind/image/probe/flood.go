package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

// flood sends UDP packets and TCP connection attempts to an address, from its first instruction on, until a signal: what comes out of
// the pod, packet for packet, is for count to see. It is as fast as it may be at first, and then, beside others, leaves them the machine.
func flood(ctx context.Context, address string) error {
	began := time.Now()
	for ctx.Err() == nil {
		if conn, err := net.Dial("udp", address); err == nil {
			for range 16 {
				_, _ = conn.Write([]byte("flood")) // that it fails is what is hoped for
			}
			conn.Close()
		}
		dialer := net.Dialer{Timeout: 20 * time.Millisecond}
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			fmt.Println("connected to", address)
			conn.Close()
		}
		if time.Since(began) < 3*time.Second {
			time.Sleep(time.Millisecond)
		} else {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}
