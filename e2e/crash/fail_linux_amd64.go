package crash

import "syscall"

// CanFail reports whether calls can be made to fail on this architecture.
const CanFail = true

// skipCall has the kernel run no call at all: there is none of this number.
func skipCall(thread int) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &regs); err != nil {
		return err
	}
	regs.Orig_rax = ^uint64(0)
	return syscall.PtraceSetRegs(thread, &regs)
}

func setResult(thread int, result int64) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &regs); err != nil {
		return err
	}
	regs.Rax = uint64(result)
	return syscall.PtraceSetRegs(thread, &regs)
}
