package cost

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

// kindOf names what errors.Is and errors.As find in an error of an acquisition or a
// release, or nothing.
func kindOf(err error) string {
	var (
		acquire *rlock.AcquireError
		lock    *rlock.LockError
		server  *rueidis.RedisError
		network *net.OpError
	)
	what := ""
	switch {
	case errors.As(err, &acquire):
		what = "acquire: "
	case errors.As(err, &lock):
		what = "release: "
	default:
		return ""
	}
	switch {
	case errors.As(err, &server):
		code, _, _ := strings.Cut(server.Error(), " ")
		return what + code
	case errors.Is(err, rlock.ErrLost):
		return what + "lost"
	case errors.Is(err, rlock.ErrExpired):
		return what + "expired"
	case errors.Is(err, rlock.ErrGaveUp) && errors.Is(err, rlock.ErrHeld):
		return what + "gave up, held"
	case errors.Is(err, context.DeadlineExceeded):
		return what + "no answer"
	case errors.Is(err, rlock.ErrHeld):
		return what + "held"
	case errors.Is(err, syscall.ECONNREFUSED):
		return what + "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		return what + "connection lost"
	case errors.As(err, &network):
		return what + "network: " + network.Err.Error()
	}
	return ""
}
