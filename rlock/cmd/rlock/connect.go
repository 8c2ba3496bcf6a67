package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// lookThere is what to do about a server of which nothing is known.
const lookThere = "check that the server runs there, and that RLOCK_URL or REDIS_URL is right"

// connectPause is between two tries to connect: rare enough for a server that starts with a thousand jobs
// before it.
const connectPause = time.Second

// connect connects to the server. A command that waits for a lock waits for the server too, which may be
// about to start again.
func (p *program) connect(
	ctx context.Context, c *connection, w *waiting, opts ...rlock.LockerOption,
) (*rlock.Locker, error) {
	start := time.Now()
	for told := false; ; {
		locker, err := open(ctx, c, opts...)
		switch {
		case ctx.Err() != nil, w.none, err != nil && !passes(c, err):
			return locker, err
		case err == nil && told:
			p.note("connected", "connected after "+time.Since(start).Round(time.Second).String(), nil)
			return locker, nil
		case err == nil:
			return locker, nil
		case !told: // also off a terminal: else a job that hangs says nothing
			told = true
			p.say("unreachable", errorText(err)+"; waiting for the server", nil)
		}
		pause := connectPause
		if w.patience > 0 {
			pause = min(pause, w.left())
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
		if w.patience > 0 && !time.Now().Before(w.end) {
			return nil, err
		}
	}
}

// open tries to connect. The client cannot be told to stop connecting, so a signal leaves it to the end of
// the process.
func open(ctx context.Context, c *connection, opts ...rlock.LockerOption) (*rlock.Locker, error) {
	type opened struct {
		locker *rlock.Locker
		err    error
	}
	c.asked.Store(false)
	done := make(chan opened, 1)
	go func() {
		locker, err := rlock.Open(c.ClientOption, opts...)
		done <- opened{locker, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case o := <-done:
		if o.err != nil {
			return nil, explain(c, o.err)
		}
		return o.locker, nil
	}
}

// passes reports whether it may be possible to connect later although nobody changes anything but the server.
func passes(c *connection, err error) bool {
	var server *rueidis.RedisError
	var network net.Error
	switch {
	case errors.As(err, &server):
		return wire.Transient(err) || strings.Contains(server.Error(), "max number of clients")
	case ofTLS(err), c.turnedAway(err):
		return false
	}
	return closed(err) || errors.As(err, &network)
}

// ofTLS reports whether the server, or this side, has ended the connection with an alert of TLS.
func ofTLS(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// turnedAway reports whether the server has asked for a certificate and then closed the connection, which is
// all that Redis says about a certificate.
func (c *connection) turnedAway(err error) bool { return c.asked.Load() && (ofTLS(err) || closed(err)) }

// explain says what to do about an error of the first connection, where that has to do with the command.
func explain(c *connection, err error) error {
	advice := ""
	switch text := err.Error(); {
	case c.turnedAway(err):
		err = errors.Unwrap(err) // without what the library, which knows less, says to do
		advice = "; the server demands a certificate: set RLOCK_TLS_CERT and RLOCK_TLS_KEY to its files"
		if c.certified {
			advice = "; the server does not accept the certificate of RLOCK_TLS_CERT"
		}
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"),
		strings.Contains(text, "invalid password"):
		advice = "; set them in the URL, redis://USER:PASSWORD@HOST, or set RLOCK_PASSWORD_FILE to a file with " +
			"the password"
	case c.TLSConfig != nil && errors.Is(err, context.DeadlineExceeded): // it waits for the rest of a command
		advice = "; " + lookThere + "; if the server does not speak TLS, use redis:// in the URL"
	case wire.Advice(err) == "":
		advice = "; " + lookThere
	}
	return failure(exitFailed, "cannot connect to %s: %w%s", c.addresses(), withoutPrefix{err}, advice)
}

// withoutPrefix leaves out what the caller says already.
type withoutPrefix struct{ error }

func (e withoutPrefix) Error() string {
	return strings.TrimPrefix(e.error.Error(), "rlock: open: ")
}

// Unwrap returns the error as it is.
func (e withoutPrefix) Unwrap() error { return e.error }
