//go:build !unix

package env

// missingSignal is a signal that os.Process refuses to send, so that a system
// without job control fails the tests that need it and not the build.
type missingSignal string

func (missingSignal) Signal() {}

func (s missingSignal) String() string { return string(s) }

const (
	stopSignal     = missingSignal("stop")
	continueSignal = missingSignal("continue")
)
