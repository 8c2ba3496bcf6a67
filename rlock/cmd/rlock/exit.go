package main

import (
	"errors"
	"fmt"
	"os"
)

// Exit codes. The manual explains them.
const (
	exitFault      = 1 // of probe
	exitNotGot     = 75
	exitLost       = 76
	exitFailed     = 125
	exitUnrunnable = 126
	exitNotFound   = 127
	exitSignal     = 128 // and the signal's number
)

// exit is an error that has an exit code. Without an err nobody is told of it.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the error without its code.
func (e *exit) Unwrap() error { return e.err }

// failure returns an error with an exit code.
func failure(code int, format string, args ...any) error {
	return &exit{code, fmt.Errorf(format, args...)}
}

// exitCode is what rlock ends with after err.
func exitCode(err error) int {
	var e *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return exitFailed
}

// interrupted is the error of a command that a signal has ended.
func interrupted(sig os.Signal) error { return &exit{code: signalCode(sig)} }
