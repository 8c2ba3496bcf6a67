//go:build unix

package bed

import "syscall"

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)
