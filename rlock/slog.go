package rlock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// longWait is the waiting time from which SlogObserver speaks up.
const longWait = time.Second

// SlogObserver returns an Observer that logs each event to logger, or to slog.Default if that is nil:
//
//   - Warn: a lock that was lost, failures other than a lock that is held, and a lease that is too short
//   - Info: acquisitions that waited for a second or longer, or gave up waiting, and locks that ended
//     with their Locker
//   - Debug: everything else
//
// A key with unprintable bytes is quoted, a long one is cut. The record has the context of the
// acquisition.
func SlogObserver(logger *slog.Logger) Observer {
	return ObserverFunc(func(ctx context.Context, e Event) {
		to := logger
		if to == nil {
			to = slog.Default()
		}
		if level := e.level(); to.Enabled(ctx, level) {
			message := e.Kind.String()
			if e.Kind == EventLost && errors.Is(e.Err, ErrExpired) {
				message = "expired"
			}
			to.LogAttrs(ctx, level, "rlock: "+message, e.attrs()...)
		}
	})
}

func (e Event) level() slog.Level {
	switch {
	case e.Kind == EventLost, e.Kind == EventExtendFailed, e.Kind == EventReleaseFailed, e.Kind == EventShortLease:
		return slog.LevelWarn
	case e.Kind == EventAcquireFailed && errors.Is(e.Err, ErrGaveUp), e.Kind == EventClosed,
		e.Kind == EventAcquired && e.Waited >= longWait:
		return slog.LevelInfo
	case e.Kind == EventAcquireFailed && !errors.Is(e.Err, ErrHeld) && !errors.Is(e.Err, ErrClosed):
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// attrs has those fields of the event that apply.
func (e Event) attrs() []slog.Attr {
	attrs := text.KeysAttrs(e.Key, len(e.Keys), e.Fence)
	if e.Attempts > 0 {
		attrs = append(attrs, slog.Int("attempts", e.Attempts))
	}
	for _, d := range []struct {
		name string
		time time.Duration
	}{{"waited", e.Waited}, {"held", e.Held}, {"remaining", e.Remaining}} {
		if d.time > 0 {
			attrs = append(attrs, text.DurationAttr(d.name, d.time))
		}
	}
	if e.Local {
		attrs = append(attrs, slog.Bool("local", true))
	}
	if e.HandedOver {
		attrs = append(attrs, slog.Bool("handed_over", true))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	return attrs
}
