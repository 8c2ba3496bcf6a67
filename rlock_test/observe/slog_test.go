package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

func TestSlogObserver(t *testing.T) {
	t.Parallel()
	job := rlock.Event{Key: "job", Keys: []string{"job"}}
	with := func(change func(e *rlock.Event)) rlock.Event {
		e := job
		change(&e)
		return e
	}
	failed := func(err error) error { return &rlock.AcquireError{Key: "job", Err: err} }
	for name, test := range map[string]struct {
		event rlock.Event
		want  string
	}{
		"acquired": {with(func(e *rlock.Event) {
			e.Kind, e.Fence, e.Attempts, e.Remaining = rlock.EventAcquired, 7, 1, 10*time.Second
		}), `level=DEBUG msg="rlock: acquired" key=job fence=7 attempts=1 remaining=10s`},
		"acquired after a long time": {with(func(e *rlock.Event) {
			e.Kind, e.Attempts, e.Waited, e.Remaining, e.HandedOver = rlock.EventAcquired, 2, time.Second,
				rlock.NoExpiry, true
		}),
			`level=INFO msg="rlock: acquired" key=job attempts=2 waited=1s remaining="never expires" handed_over=true`},
		"contended": {with(func(e *rlock.Event) {
			e.Kind, e.Attempts, e.Local = rlock.EventContended, 1, true
		}), `level=DEBUG msg="rlock: contended" key=job attempts=1 local=true`},
		"expired": {with(func(e *rlock.Event) {
			e.Kind, e.Held, e.Err = rlock.EventExpired, 3*time.Second, rlock.ErrExpired
		}), `level=WARN msg="rlock: expired" key=job held=3s error="rlock: lease expired before it was extended"`},
		"held": {with(func(e *rlock.Event) {
			e.Kind, e.Err = rlock.EventAcquireFailed, failed(rlock.ErrHeld)
		}),
			`level=DEBUG msg="rlock: acquire_failed" key=job reason=held error="rlock: acquire \"job\": lock is held by another"`},
		"gave up": {with(func(e *rlock.Event) {
			e.Kind, e.Err = rlock.EventAcquireFailed, failed(fmt.Errorf("%w: %w", rlock.ErrGaveUp, context.Canceled))
		}),
			`level=INFO msg="rlock: acquire_failed" key=job reason=canceled error="rlock: acquire \"job\": gave up waiting: context canceled"`},
		"server error": {with(func(e *rlock.Event) {
			e.Kind, e.Err = rlock.EventAcquireFailed, failed(errors.New("NOPERM no"))
		}),
			`level=WARN msg="rlock: acquire_failed" key=job reason=refused error="rlock: acquire \"job\": NOPERM no"`},
		"gave up, no answer": {with(func(e *rlock.Event) {
			e.Kind, e.Err = rlock.EventAcquireFailed, failed(fmt.Errorf("%w: %w", rlock.ErrGaveUp, rlock.ErrNoAnswer))
		}),
			`level=WARN msg="rlock: acquire_failed" key=job reason=no_answer error="rlock: acquire \"job\": gave up waiting: rlock: no answer from the server"`},
		"extend_failed": {with(func(e *rlock.Event) {
			e.Kind, e.Err = rlock.EventExtendFailed, errors.New("OOM")
		}), `level=WARN msg="rlock: extend_failed" key=job reason=refused error=OOM`},
		"release_failed": {with(func(e *rlock.Event) {
			e.Kind, e.Err = rlock.EventReleaseFailed, rlock.ErrNoAnswer
		}),
			`level=WARN msg="rlock: release_failed" key=job reason=no_answer error="rlock: no answer from the server"`},
		"released": {with(func(e *rlock.Event) { e.Kind = rlock.EventReleased }),
			`level=DEBUG msg="rlock: released" key=job`},
		"closed": {with(func(e *rlock.Event) { e.Kind = rlock.EventClosed }),
			`level=INFO msg="rlock: closed" key=job`},
		"short lease": {with(func(e *rlock.Event) { e.Kind = rlock.EventShortLease }),
			`level=WARN msg="rlock: short_lease" key=job`},
		"set": {with(func(e *rlock.Event) {
			e.Kind, e.Keys = rlock.EventReleased, []string{"job", "other"}
		}), `level=DEBUG msg="rlock: released" key=job keys=2`},
		"polling": {with(func(e *rlock.Event) {
			e.Kind = rlock.EventPolling
		}), `level=WARN msg="rlock: polling" key=job`},
		"a key of any bytes": {with(func(e *rlock.Event) {
			e.Kind, e.Key = rlock.EventReleased, "a\nlevel=ERROR \x00\xff"
		}), `level=DEBUG msg="rlock: released" key="\"a\\nlevel=ERROR \\x00\\xff\""`},
		"a long key": {with(func(e *rlock.Event) {
			e.Kind, e.Key = rlock.EventReleased, strings.Repeat("k", 1000)
		}), `level=DEBUG msg="rlock: released" key="\"` + strings.Repeat("k", 80) + `\"…"`},
	} {
		t.Run(name, func(t *testing.T) {
			var written bytes.Buffer
			rlock.SlogObserver(slog.New(slog.NewTextHandler(&written, &slog.HandlerOptions{
				Level: slog.LevelDebug,
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				},
			}))).Observe(t.Context(), test.event)
			require.Equal(t, test.want+"\n", written.String())
		})
	}
	// to the default logger
	rlock.SlogObserver(nil).Observe(t.Context(), with(func(e *rlock.Event) { e.Kind = rlock.EventReleased }))
}
