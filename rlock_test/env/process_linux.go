package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Without dieWithParent, a test binary that is killed, or that exits on a test timeout, leaves its servers
// running.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stands reports whether all threads of a process are stopped. It returns true for a process that is gone.
func stands(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has just ended
		}
		_, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") {
			return false
		}
	}
	return true
}
