package bed

import "syscall"

// Without it a test binary that is killed, or that exits on a test timeout,
// leaves its servers running.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
