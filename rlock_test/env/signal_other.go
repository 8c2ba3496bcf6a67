//go:build !unix

package env

// missingSignal is a signal that os.Process refuses to send. On a system without job control, the tests that
// need the signal fail, but the build works.
type missingSignal string

func (missingSignal) Signal() {}

func (s missingSignal) String() string { return string(s) }

const (
	stopSignal     = missingSignal("stop")
	continueSignal = missingSignal("continue")
)
