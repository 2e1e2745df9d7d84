// Arm has the kernel stop the program that it becomes at the system calls that package crash is interested in, and at no
// others: a stop at every one would take most of the time.
package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/holdfast-cni/holdfast/e2e/crash"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: arm PROGRAM [ARGUMENT]...")
		os.Exit(2)
	}
	err := crash.Arm()
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "arm:", err)
	os.Exit(1)
}
