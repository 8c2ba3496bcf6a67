package rlocktest_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// opened returns a Locker of the server that is closed with the test. Two of them stand for two processes.
func opened(t *testing.T, server *rlocktest.Server, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(server.Option(), opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// The package comment shows the bodies of the following four tests.

func TestAdvanceEndsALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		mine, theirs := opened(t, server), opened(t, server)
		lock, err := mine.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second))
		require.NoError(t, err)

		server.Advance(29 * time.Second)
		require.NoError(t, lock.Err())
		_, err = theirs.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld)

		server.Advance(time.Second)
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrExpired)
		_, err = theirs.TryAcquire(t.Context(), "job")
		require.NoError(t, err)
	})
}

func TestAdvanceRenewsALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		locker := opened(t, server)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)

		server.Advance(10 * time.Minute)
		require.NoError(t, lock.Err())

		server.Silence() // nobody can renew it
		server.Advance(30 * time.Second)
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrExpired)
	})
}

func TestAdvanceGrantsALockToAWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		dies, waits := opened(t, server), opened(t, server)
		_, err := dies.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		got := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := waits.Acquire(t.Context(), "job")
			assert.NoError(t, err)
			got <- lock
		}()

		server.Advance(10 * time.Minute)
		require.Empty(t, got) // it was renewed all the time

		dies.Close() // as if its process had died: nobody renews the lock, nor releases it
		server.Advance(31 * time.Second)
		require.NoError(t, (<-got).Err())
	})
}

func TestAdvanceEndsAPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		runs := 0
		start := func(locker *rlock.Locker) {
			_, err := locker.TryDo(t.Context(), "report", func(context.Context, *rlock.Lock) error {
				runs++
				return nil
			}, rlock.WithTTL(10*time.Minute), rlock.WithMinHold(10*time.Minute))
			require.NoError(t, err)
		}
		one, other := opened(t, server), opened(t, server)

		start(one)
		server.Advance(5 * time.Minute) // by which the clock of the other machine is behind
		start(other)
		require.Equal(t, 1, runs)

		server.Advance(55 * time.Minute)
		start(other)
		require.Equal(t, 2, runs)
	})
}

// What the package comment shows is what runs here.
func TestPackageCommentShowsTheTests(t *testing.T) {
	t.Parallel()
	comment, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	tests, err := os.ReadFile("time_test.go")
	require.NoError(t, err)
	tests = bytes.ReplaceAll(tests, []byte("\nfunc"), []byte("\n\tfunc"))
	tests = bytes.ReplaceAll(tests, []byte("\n}"), []byte("\n\t}"))
	_, section, found := strings.Cut(string(comment), "\n// # Time\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n// # ")
	shown := 0
	for line := range strings.Lines(section) {
		code, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		if isCode && strings.TrimSpace(code) != "" {
			require.Contains(t, string(tests), "\t"+strings.TrimLeft(code, "\t")+"\n")
			shown++
		}
	}
	require.Greater(t, shown, 20)
}

// Everything that waits, renews or ends moves on together, for several Lockers: leaders follow each other,
// and who looks on sees it.
func TestAdvanceMovesLeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		begin := time.Now()
		const term = 2 * time.Minute
		terms, seen := make(chan string, 10), make(chan string, 20)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		fences := make(chan uint64, 10)
		for _, name := range []string{"a", "b", "c"} {
			locker := opened(t, server)
			go func() {
				ended <- locker.Lead(ctx, "leader", func(ctx context.Context, lock *rlock.Lock) error {
					terms <- name
					fences <- lock.Fence()
					select {
					case <-time.After(term):
						return lock.Release(ctx)
					case <-ctx.Done():
						return nil
					}
				}, rlock.WithTTL(10*time.Second), rlock.WithOwner(name))
			}()
			server.Advance(0)
		}
		viewer := opened(t, server)
		go func() {
			for state, err := range viewer.Leaders(ctx, "leader") {
				if err == nil && state.Held {
					seen <- state.Owner
				}
			}
		}()
		var last uint64
		for _, leader := range []string{"a", "b", "c"} {
			server.Advance(term / 2)
			require.Equal(t, leader, <-terms)
			require.Equal(t, leader, <-seen)
			require.Empty(t, terms)
			fence := <-fences
			require.Greater(t, fence, last)
			last = fence
			server.Advance(term / 2)
		}
		require.Equal(t, 3*term, time.Since(begin), "nothing else lets time pass")
		stop()
		for range 3 {
			if err := <-ended; err != nil {
				require.ErrorIs(t, err, rlock.ErrGaveUp)
			}
		}
	})
}

// Shares end each at its time, and who waits for them gets the lock then: a writer, and a permit.
func TestAdvanceEndsShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		a, b, c := opened(t, server), opened(t, server), opened(t, server)
		short, err := a.AcquireShared(t.Context(), "file", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		long, err := b.AcquireShared(t.Context(), "file", rlock.WithTTL(2*time.Minute))
		require.NoError(t, err)
		wrote := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := c.Acquire(t.Context(), "file")
			assert.NoError(t, err)
			wrote <- lock
		}()
		server.Advance(time.Minute)
		require.Error(t, short.Err())
		require.NoError(t, long.Err())
		require.Empty(t, wrote)
		server.Advance(time.Minute + time.Second)
		require.Error(t, long.Err())
		writer := <-wrote
		require.NoError(t, writer.Err())
		require.NoError(t, writer.Release(t.Context()))

		const limit = 2
		_, err = a.AcquirePermits(t.Context(), "pool", 1, limit, rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		kept, err := b.AcquirePermits(t.Context(), "pool", 1, limit, rlock.WithTTL(time.Minute),
			rlock.WithAutoExtend(true))
		require.NoError(t, err)
		_, err = c.TryAcquirePermits(t.Context(), "pool", 1, limit)
		require.ErrorIs(t, err, rlock.ErrHeld)
		server.Advance(time.Minute)
		next, err := c.AcquirePermits(t.Context(), "pool", 1, limit)
		require.NoError(t, err)
		require.NoError(t, kept.Err())
		require.NoError(t, next.Release(t.Context()))
		require.NoError(t, kept.Release(t.Context()))
	})
}

// A wait ends when that is due: with its context, or with the Close of its Locker.
func TestAdvanceEndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		locker, closing := opened(t, server), opened(t, server)
		server.Take("job", 24*time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended, closed := make(chan error, 1), make(chan error, 1)
		go func() { _, err := locker.Acquire(ctx, "job"); ended <- err }()
		go func() { _, err := closing.Acquire(t.Context(), "job"); closed <- err }()
		server.Advance(time.Minute - time.Millisecond)
		require.Empty(t, ended)
		server.Advance(time.Millisecond)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		require.Empty(t, closed)
		closing.Close()
		server.Advance(0)
		require.ErrorIs(t, <-closed, rlock.ErrClosed)
	})
}

// Where the server and the caller have no clock in common, Advance says so and does not wait.
func TestAdvanceNeedsTheBubble(t *testing.T) {
	t.Parallel()
	listens, outside := rlocktest.Start(t), rlocktest.StartInMemory(t)
	says := func(text string, s *rlocktest.Server) {
		t.Helper()
		defer func() {
			t.Helper()
			why := recover()
			if err, is := why.(error); is {
				why = err.Error()
			}
			require.Contains(t, why, text)
		}()
		s.Advance(time.Hour)
	}
	says("use StartInMemory", listens)
	says("not in a bubble", outside)
	synctest.Test(t, func(t *testing.T) {
		says("outside of the bubble", outside)
		says("use StartInMemory", listens)
	})
}
