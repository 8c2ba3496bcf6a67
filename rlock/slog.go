package rlock

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// longWait is the shortest wait that SlogObserver logs at Info.
const longWait = time.Second

// burst is the time in which SlogObserver counts warnings that are like a logged warning.
const burst = time.Minute

// SlogObserver returns an Observer that logs each event to logger, or to slog.Default if logger is nil:
//
//   - Warn: a lock was lost or expired, a lease is too short, or a failure is about the server or the
//     program, such as ErrNoAnswer
//   - Info: an acquisition waited for a second or longer, gave up or was cancelled, or a lock ended with its
//     Locker
//   - Debug: every other event
//
// SlogObserver logs one warning for each kind and reason. For a minute it counts further warnings of the same
// kind and reason, and logs them at Debug, each with its key. So an outage makes one warning a minute. The
// first event after that minute brings a line without a key. It has the count, as more, and the time since
// the last counted warning. SlogObserver quotes a key with unprintable bytes, and cuts a long key.
func SlogObserver(logger *slog.Logger) Observer { return &slogObserver{logger: logger} }

// slogObserver has one burst for each kind and reason.
type slogObserver struct {
	logger *slog.Logger
	due    atomic.Int64 // a clock.Instant: when the first burst ends that has counted something; 0: none

	mu     sync.Mutex
	bursts [eventKinds][failureReasons]struct {
		end  clock.Instant // zero: there was none
		more int           // not logged
		last clock.Instant // when the last of these came
	}
}

// counted is what a burst has counted and not logged.
type counted struct {
	kind   EventKind
	reason FailureReason
	more   int
	ago    time.Duration
}

// Observe logs the event, unless the event is part of a burst.
func (o *slogObserver) Observe(ctx context.Context, e Event) {
	to := o.logger
	if to == nil {
		to = slog.Default()
	}
	level, reason := e.level(), e.Reason()
	for _, c := range o.ended() {
		attrs := append(c.reason.attrs(), slog.Int("more", c.more), text.DurationAttr("last_ago", c.ago))
		to.LogAttrs(ctx, slog.LevelWarn, "rlock: "+c.kind.String(), attrs...)
	}
	if level == slog.LevelWarn && to.Enabled(ctx, level) && o.counts(e.Kind, reason) {
		level = slog.LevelDebug
	}
	if !to.Enabled(ctx, level) {
		return
	}
	to.LogAttrs(ctx, level, "rlock: "+e.Kind.String(), e.attrs(reason)...)
}

// counts reports whether an event is part of a burst, and then counts it. Otherwise it begins a burst.
func (o *slogObserver) counts(kind EventKind, reason FailureReason) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, now := &o.bursts[kind][reason], clock.Now()
	if now >= b.end {
		b.end = now.After(burst)
		return false
	}
	b.more, b.last = b.more+1, now
	if due := clock.Instant(o.due.Load()); due == 0 || b.end < due { // only who has mu changes it
		o.due.Store(int64(b.end))
	}
	return true
}

// ended returns the counts of the bursts that are over. While no burst has a count, it takes no mutex.
func (o *slogObserver) ended() (all []counted) {
	now := clock.Now()
	if due := clock.Instant(o.due.Load()); due == 0 || now < due {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var due clock.Instant
	for kind := range o.bursts {
		for reason := range o.bursts[kind] {
			switch b := &o.bursts[kind][reason]; {
			case b.more > 0 && now >= b.end:
				ago := time.Duration(now - b.last).Round(time.Second)
				all = append(all, counted{EventKind(kind), FailureReason(reason), b.more, ago})
				b.more = 0
			case b.more > 0 && (due == 0 || b.end < due):
				due = b.end
			}
		}
	}
	o.due.Store(int64(due))
	return all
}

func (e Event) level() slog.Level {
	switch {
	case e.Kind == EventLost, e.Kind == EventExpired, e.Kind == EventShortLease, e.Kind == EventPolling,
		e.Kind == EventExtendFailed, e.Kind == EventReleaseFailed:
		return slog.LevelWarn
	case e.Kind == EventClosed, e.Kind == EventAcquired && e.Waited >= longWait:
		return slog.LevelInfo
	}
	switch e.Reason() {
	case ReasonGaveUp, ReasonCanceled:
		return slog.LevelInfo
	case 0, ReasonHeld, ReasonAlreadyHeld, ReasonClosed:
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// attrs returns the fields of the event that apply.
func (e Event) attrs(reason FailureReason) []slog.Attr {
	attrs := append(text.KeysAttrs(e.Key, len(e.Keys), e.Fence), reason.attrs()...)
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

// attrs returns the reason, if there is one.
func (r FailureReason) attrs() []slog.Attr {
	if r == 0 {
		return nil
	}
	return []slog.Attr{slog.String("reason", r.String())}
}
