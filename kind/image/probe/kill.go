package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kill waits until somebody runs an executable, and ends that process some milliseconds later, at a random instant of a short life.
// It fails where nobody does so for ten seconds, and where the process has ended by then.
func kill(ctx context.Context, executable string) error {
	group, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return fmt.Errorf("listen for executions: %w", err)
	}
	events := os.NewFile(uintptr(group), "fanotify")
	defer events.Close()
	if err := unix.FanotifyMark(group, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC, unix.AT_FDCWD, executable); err != nil {
		return fmt.Errorf("listen for executions of %s: %w", executable, err)
	}
	context.AfterFunc(ctx, func() { events.Close() })
	if err := events.SetReadDeadline(time.Now().Add(2 * timeout)); err != nil {
		return err
	}
	event := make([]byte, unsafe.Sizeof(unix.FanotifyEventMetadata{})) // of one event: of more, the kernel keeps the rest
	if _, err := events.Read(event); err != nil {
		return fmt.Errorf("wait for somebody to run %s: %w", executable, err)
	}
	metadata := unix.FanotifyEventMetadata{}
	if _, err := binary.Decode(event, binary.NativeEndian, &metadata); err != nil {
		return err
	}
	unix.Close(int(metadata.Fd))
	if metadata.Pid == 0 {
		return errors.New("a process of another PID namespace ran " + executable)
	}
	time.Sleep(rand.N(15 * time.Millisecond))
	return unix.Kill(int(metadata.Pid), unix.SIGKILL)
}
