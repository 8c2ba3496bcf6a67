package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// lines is what a logger writes, without times.
type lines struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(p)
}

// take returns what was written since the last call.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.written.Reset()
	if l.written.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(l.written.String(), "\n"), "\n")
}

func (l *lines) logger() *slog.Logger { return l.at(slog.LevelInfo) }

func (l *lines) at(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l,
		&slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}

// An outage makes a line for each kind of what fails, and later one with the number, however many locks there
// are.
func TestOutageInTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const locks = 50
		var log lines
		server := rlocktest.StartInMemory(t)
		locker, err := rlock.Open(server.Option(), rlock.WithObserver(rlock.SlogObserver(log.logger())))
		require.NoError(t, err)
		t.Cleanup(locker.Close)
		for i := range locks {
			env.MustLock(t)(locker.Acquire(t.Context(), fmt.Sprint("held", i), rlock.WithTTL(5*time.Minute),
				rlock.WithAutoExtend(true)))
		}
		require.Empty(t, log.take())
		time.Sleep(90 * time.Second)
		server.Stop()
		for range 12 { // callers come all the time
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := env.Together(10, func(i int) error {
				_, err := locker.Acquire(ctx, fmt.Sprint("job", i))
				if !errors.Is(err, rlock.ErrNoAnswer) {
					return err
				}
				return nil
			})
			cancel()
			require.NoError(t, err)
		}
		require.NoError(t, server.Restart(rlocktest.KeepData))
		time.Sleep(time.Minute)
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
		require.NoError(t, lock.Release(t.Context()))

		stats := locker.Stats()
		require.EqualValues(t, 120, stats.AcquireFailedBy[rlock.ReasonNoAnswer])
		require.Greater(t, stats.ExtendFailed, uint64(100))
		written := log.take()
		require.Len(t, written, 4, strings.Join(written, "\n"))
		more := 0
		for _, line := range written {
			require.Contains(t, line, "level=WARN")
			require.Contains(t, line, "reason=no_answer")
			_, counted, is := strings.Cut(line, " more=")
			if !is {
				require.Regexp(t, `key=.* error=`, line)
				more++
				continue
			}
			require.NotContains(t, line, "key=")
			var n int
			_, err := fmt.Sscan(counted, &n)
			require.NoError(t, err)
			more += n
		}
		require.EqualValues(t, stats.AcquireFailed+stats.ExtendFailed, more, "each is in a line or in a number")
	})
}

// What differs in kind or reason is logged each. A lock that is lost has a kind and no reason.
func TestBurstsAreOfOneReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lines
		observer := rlock.SlogObserver(log.logger())
		tell := func(kind rlock.EventKind, err error) {
			observer.Observe(t.Context(), rlock.Event{Kind: kind, Key: "job", Err: err})
		}
		for range 3 {
			tell(rlock.EventAcquireFailed, rlock.ErrNoAnswer)
			tell(rlock.EventAcquireFailed, errors.New("OOM"))
			tell(rlock.EventExtendFailed, errors.New("OOM"))
		}
		require.Len(t, log.take(), 3)
		for range 3 {
			tell(rlock.EventLost, rlock.ErrLost)
			tell(rlock.EventAcquireFailed, rlock.ErrGaveUp) // no warning
		}
		require.Len(t, log.take(), 4)
		time.Sleep(time.Minute)
		require.Empty(t, log.take(), "it has no timer")
		tell(rlock.EventReleased, nil)
		require.ElementsMatch(t, []string{
			`level=WARN msg="rlock: acquire_failed" reason=no_answer more=2 last_ago=1m0s`,
			`level=WARN msg="rlock: acquire_failed" reason=refused more=2 last_ago=1m0s`,
			`level=WARN msg="rlock: extend_failed" reason=refused more=2 last_ago=1m0s`,
			`level=WARN msg="rlock: lost" more=2 last_ago=1m0s`,
		}, log.take())
		tell(rlock.EventReleased, nil)
		require.Empty(t, log.take(), "it says so once")
		tell(rlock.EventAcquireFailed, rlock.ErrNoAnswer)
		require.Len(t, log.take(), 1, "another burst begins")
	})
}

// A number comes a minute after its burst has begun, in whatever order the bursts have begun to count.
func TestBurstsEndInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lines
		observer := rlock.SlogObserver(log.logger())
		tell := func(err error) {
			observer.Observe(t.Context(), rlock.Event{Kind: rlock.EventAcquireFailed, Key: "job", Err: err})
		}
		refused := errors.New("OOM")
		tell(rlock.ErrNoAnswer) // the burst that ends first
		time.Sleep(30 * time.Second)
		tell(refused)
		tell(refused) // the one that counts first
		tell(rlock.ErrNoAnswer)
		require.Len(t, log.take(), 2)
		time.Sleep(30 * time.Second)
		tell(rlock.ErrNoAnswer)
		written := log.take()
		require.Len(t, written, 2)
		require.Equal(t, `level=WARN msg="rlock: acquire_failed" reason=no_answer more=1 last_ago=30s`, written[0])
	})
}

// What a burst does not warn of is there with its key for who has switched on Debug.
func TestBurstsAreWholeAtDebug(t *testing.T) {
	t.Parallel()
	var log lines
	observer := rlock.SlogObserver(log.at(slog.LevelDebug))
	for i := range 50 {
		observer.Observe(t.Context(),
			rlock.Event{Kind: rlock.EventLost, Key: fmt.Sprint("job", i), Err: rlock.ErrLost})
	}
	written := log.take()
	require.Len(t, written, 50)
	for i, line := range written {
		level := "DEBUG"
		if i == 0 {
			level = "WARN"
		}
		require.Contains(t, line, fmt.Sprintf("level=%s msg=\"rlock: lost\" key=job%d ", level, i))
	}
}
