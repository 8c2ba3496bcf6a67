package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// only is one failure for a reason.
func only(reason rlock.FailureReason) (f rlock.Failures) {
	f[reason] = 1
	return f
}

// Each way in which an acquisition fails has its reason, which the error, the event and the counts agree on.
func TestReasons(t *testing.T) {
	t.Parallel()
	type call = func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error
	acquire := func(ctx context.Context, l *rlock.Locker) error { return env.ErrorOf(l.Acquire(ctx, "job")) }
	for reason, fail := range map[rlock.FailureReason]call{
		rlock.ReasonHeld: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Take("job", time.Hour)
			return env.ErrorOf(l.TryAcquire(ctx, "job"))
		},
		rlock.ReasonAlreadyHeld: func(ctx context.Context, l *rlock.Locker, _ *rlocktest.Server) error {
			return l.Do(ctx, "job", func(ctx context.Context, _ *rlock.Lock) error { return acquire(ctx, l) })
		},
		rlock.ReasonGaveUp: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Take("job", time.Hour)
			return acquire(ctx, l)
		},
		rlock.ReasonCanceled: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Take("job", time.Hour)
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Second, cancel)
			return acquire(ctx, l)
		},
		rlock.ReasonNoAnswer: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Stop()
			return acquire(ctx, l)
		},
		rlock.ReasonRefused: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.FailNext(rlocktest.Acquires, "OOM no")
			return acquire(ctx, l)
		},
		rlock.ReasonExpired: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Delay(100 * time.Millisecond)
			return env.ErrorOf(l.Acquire(ctx, "job", rlock.WithTTL(50*time.Millisecond)))
		},
		rlock.ReasonClosed: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Take("job", time.Hour)
			time.AfterFunc(time.Second, l.Close)
			return acquire(ctx, l)
		},
		rlock.ReasonInterrupted: func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			defer func() { _ = recover() }()
			s.Take("job", time.Hour)
			return env.ErrorOf(l.Acquire(ctx, "job",
				rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) { panic("no") }))))
		},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rlocktest.StartInMemory(t)
				told := map[rlock.FailureReason]uint64{}
				locker, err := rlock.Open(server.Option(),
					rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
						if e.Kind == rlock.EventAcquireFailed {
							told[e.Reason()]++
						} else {
							require.Zero(t, e.Reason(), e.Kind)
						}
					})))
				require.NoError(t, err)
				t.Cleanup(locker.Close)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err = fail(ctx, locker, server)
				if reason != rlock.ReasonInterrupted { // the call does not return
					var facts *rlock.AcquireError
					require.ErrorAs(t, err, &facts)
					require.Equal(t, reason, facts.Reason(), err)
				}
				require.Equal(t, map[rlock.FailureReason]uint64{reason: 1}, told)
				stats := locker.Stats()
				require.Equal(t, only(reason), stats.AcquireFailedBy)
				require.EqualValues(t, 1, stats.AcquireFailed)
				require.EqualValues(t, 1, stats.AcquireFailedBy.Total())
				text, err := json.Marshal(stats.AcquireFailedBy)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf(`{"%s":1}`, reason), string(text))
			})
		})
	}
}

// Extensions and releases that fail have their reasons too.
func TestReasonsOfLocks(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]rlock.FailureReason{
		"OOM no": rlock.ReasonRefused, "LOADING later": rlock.ReasonNoAnswer, "": rlock.ReasonNoAnswer,
	} {
		f, locker, _ := env.NewFaulty(t, env.Engines(t)[0])
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
		ctx, exceed := env.Deadline(t.Context())
		f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
			time.AfterFunc(200*time.Millisecond, exceed) // not before the answer, which gives the reason
			if text == "" {
				return env.NoReply()
			}
			return f.Refuse(text)
		})
		require.Error(t, lock.Extend(ctx, time.Minute))
		require.Error(t, lock.Release(ctx))
		stats := locker.Stats()
		require.Equal(t, stats.ExtendFailed, stats.ExtendFailedBy[reason], text)
		require.Equal(t, only(reason), stats.ReleaseFailedBy, text)
	}
}

// Everybody who has not got the lock counts as waiting, for as long as the call lasts: for a holder, in a
// line of the process, and for a server that refuses connections or says nothing.
func TestWaitingIsCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin      func(*rlocktest.Server)
		kinds      int // of keys
		after      time.Duration
		unanswered int64
	}{
		"a holder, one key": {func(s *rlocktest.Server) { s.Take("job0", time.Hour) }, 1, time.Second, 0},
		"stopped, one key":  {(*rlocktest.Server).Stop, 1, 100 * time.Millisecond, 1},
		"stopped, ten keys": {(*rlocktest.Server).Stop, 10, 100 * time.Millisecond, 10},
		"silent, ten keys":  {func(s *rlocktest.Server) { s.Silence() }, 10, 2 * time.Second, 10},
		"silent after a holder": {func(s *rlocktest.Server) {
			s.Take("job0", time.Hour)
			time.AfterFunc(2*time.Second, func() { s.Silence() })
		}, 1, 6 * time.Second, 1},
		"slow, but not for long": {func(s *rlocktest.Server) { s.Delay(200 * time.Millisecond) }, 10,
			100 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rlocktest.StartInMemory(t)
				locker, err := rlock.Open(server.Option())
				require.NoError(t, err)
				t.Cleanup(locker.Close)
				c.begin(server)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				done := make(chan error)
				for i := range 10 {
					go func() {
						lock, err := locker.Acquire(ctx, fmt.Sprint("job", i%c.kinds))
						if err == nil {
							err = lock.Release(t.Context())
						}
						done <- err
					}()
				}
				time.Sleep(c.after)
				synctest.Wait()
				stats := locker.Stats()
				if name == "slow, but not for long" {
					require.Zero(t, stats.Waiting)
					require.Zero(t, stats.OldestWait)
				} else {
					require.EqualValues(t, 10, stats.Waiting)
					require.Equal(t, c.after, stats.OldestWait)
				}
				require.Equal(t, c.unanswered, stats.Unanswered)
				for range 10 {
					<-done
				}
				stats = locker.Stats()
				require.Zero(t, stats.Waiting)
				require.Zero(t, stats.Unanswered)
				require.Zero(t, stats.OldestWait)
			})
		})
	}
}

// A candidate waits for as long as another leads, and is no old wait, unless the server does not answer.
func TestCandidatesAreNoOldWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		locker, err := rlock.Open(server.Option())
		require.NoError(t, err)
		t.Cleanup(locker.Close)
		server.Take("leader", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- locker.Lead(ctx, "leader",
				func(context.Context, *rlock.Lock) error { return errors.New("it leads") })
		}()
		time.Sleep(10 * time.Minute)
		stats := locker.Stats()
		require.EqualValues(t, 1, stats.Waiting)
		require.Zero(t, stats.OldestWait)
		server.Silence()
		time.Sleep(time.Minute)
		stats = locker.Stats()
		require.EqualValues(t, 1, stats.Unanswered)
		require.Equal(t, 11*time.Minute, stats.OldestWait)
		cancel()
		require.ErrorIs(t, <-ended, rlock.ErrNoAnswer)
	})
}
