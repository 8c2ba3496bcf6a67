package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// idle requires that nothing but fence counters is left.
func idle(t *testing.T, client rueidis.Client) {
	t.Helper()
	env.Soon(t, func() bool {
		names, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
		for _, name := range names {
			if len(name) < 12 || name[:12] != "rlock:fence:" {
				return false
			}
		}
		return err == nil
	}, "nothing is left")
}

// Shares have a fence, whatever WithFence says: it is the phase that they share, and each phase has a
// higher one, also after a holder without a fence.
func TestSharesAreFenced(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client := e.Start(t).Client(t)
		ctx, off := t.Context(), rlock.WithFence(false)
		without, with := env.NewLocker(t, client, off), env.NewLocker(t, client)
		var last uint64
		for range 3 {
			whole := env.MustLock(t)(without.Acquire(ctx, "k"))
			require.Zero(t, whole.Fence())
			require.NoError(t, whole.Release(ctx))
			a := env.MustLock(t)(without.AcquireShared(ctx, "k"))
			b := env.MustLock(t)(with.AcquireShared(ctx, "k", off))
			require.Greater(t, a.Fence(), last)
			require.Equal(t, a.Fence(), b.Fence())
			last = a.Fence()
			require.NoError(t, a.Release(ctx))
			require.NoError(t, b.Release(ctx))
			permit := env.MustLock(t)(without.AcquirePermits(ctx, "k", 1, 2))
			require.Greater(t, permit.Fence(), last)
			require.NoError(t, permit.Release(ctx))
			fenced := env.MustLock(t)(with.Acquire(ctx, "k"))
			require.Greater(t, fenced.Fence(), permit.Fence())
			last = fenced.Fence()
			require.NoError(t, fenced.Release(ctx))
		}
	})
}

// Those who share a key have one fence as long as one of them has it, however often they change.
func TestFenceOfThoseWhoShare(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client, ctx := e.Start(t).Client(t), t.Context()
		l := env.NewLocker(t, client, rlock.WithUniqueToken(true))
		for name, acquire := range map[string]func() (*rlock.Lock, error){
			"readers": func() (*rlock.Lock, error) { return l.AcquireShared(ctx, "data") },
			"permits": func() (*rlock.Lock, error) { return l.AcquirePermits(ctx, "slots", 1, 2) },
		} {
			last := env.MustLock(t)(acquire())
			for range 3 {
				next := env.MustLock(t)(acquire())
				require.Equal(t, last.Fence(), next.Fence(), name)
				require.NoError(t, last.Release(ctx))
				last = next
			}
			fence := last.Fence()
			require.NoError(t, last.Release(ctx))
			later := env.MustLock(t)(acquire())
			require.Greater(t, later.Fence(), fence, name)
			require.NoError(t, later.Release(ctx))
		}
	})
}

// With the token that a shared key has at the server, ForceRelease frees all shares.
func TestForceReleaseOfAllShares(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client, ctx := e.Start(t).Client(t), t.Context()
		operator := env.NewLocker(t, client)
		for name, acquire := range map[string]func(*rlock.Locker) (*rlock.Lock, error){
			"readers": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(ctx, "k") },
			"permits": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquirePermits(ctx, "k", 1, 3) },
		} {
			var shares []*rlock.Lock
			for range 2 {
				shares = append(shares, env.MustLock(t)(acquire(env.NewLocker(t, client))))
			}
			state := env.Inspect(t, operator, "k")
			for _, h := range state.Holders {
				require.NoError(t, env.Admin(operator).ForceRelease(ctx, "k", h.Token()), name)
			}
			whole := env.MustLock(t)(operator.TryAcquire(ctx, "k"))
			for _, share := range shares {
				require.Greater(t, whole.Fence(), share.Fence(), name)
				require.ErrorIs(t, share.Verify(ctx), rlock.ErrLost, name)
			}
			require.NoError(t, whole.Release(ctx))
		}
	})
}

// A share is a Lock like any other.
func TestShareIsALock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		l := env.OpenOn(t, server)
		ctx := t.Context()
		a := env.MustLock(t)(l.AcquireShared(ctx, "k", rlock.WithOwner("ann")))
		b := env.MustLock(t)(l.TryAcquireShared(ctx, "k", rlock.WithTTL(time.Minute), rlock.WithUniqueToken(true)))
		require.Equal(t, a.Fence(), b.Fence())
		require.NotEqual(t, a.Token(), b.Token())
		require.NoError(t, errors.Join(a.Err(), b.Err()))
		_, err := l.TryAcquire(ctx, "k")
		require.ErrorIs(t, err, rlock.ErrHeld)
		_, err = l.TryAcquire(a.Context(), "k")
		require.ErrorIs(t, err, rlock.ErrAlreadyHeld, "there is no upgrade")

		s := env.Inspect(t, l, "k")
		require.Equal(t, rlockadmin.Readers, s.Mode)
		require.Len(t, s.Holders, 2)
		require.Zero(t, s.Limit)
		require.Equal(t, []string{a.Token(), b.Token()}, []string{s.Holders[0].Token(), s.Holders[1].Token()})
		require.Equal(t, "ann", s.Holders[0].Owner)
		require.InDelta(t, rlock.DefaultTTL, s.Holders[0].Remaining, float64(10*time.Second))
		for _, text := range []string{fmt.Sprintf("%v %+v %#v", s.Holders, s, s.Holders[0]),
			string(must(json.Marshal(s)))} {
			require.NotContains(t, text, a.Token())
		}
		checked, err := l.Check(ctx, "k")
		require.NoError(t, err)
		require.True(t, checked.Shared)

		err = a.Verify(ctx)
		require.NoError(t, err)
		require.NoError(t, a.Extend(ctx, time.Hour))
		require.Greater(t, time.Until(a.Deadline()), 50*time.Minute)
		former := a.Token()
		require.NoError(t, a.Extend(ctx, 10*time.Second))
		require.NotEqual(t, former, a.Token())
		require.Less(t, env.Inspect(t, l, "k").Holders[0].Remaining, 20*time.Second)
		require.Equal(t, []error{nil, nil}, l.ExtendEach(ctx, []*rlock.Lock{a, b}, 2*time.Minute))
		require.Len(t, l.Locks(), 2)

		handoff := env.Detach(t, b)
		c := env.MustLock(t)(env.OpenOn(t, server).Attach(ctx, handoff))
		require.Equal(t, a.Fence(), c.Fence())
		_, err = l.Attach(ctx, handoff)
		require.Error(t, err)

		require.NoError(t, a.Release(ctx))
		require.ErrorIs(t, a.Release(ctx), rlock.ErrReleased)
		require.ErrorIs(t, a.Err(), rlock.ErrReleased)
		err = c.Verify(ctx)
		require.NoError(t, err)
		require.NoError(t, c.Release(ctx))
		idle(t, client)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A share whose key is gone, or another's, is lost: the server tells, or the next call.
func TestShareIsLost(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l, operator := env.OpenOn(t, server), env.NewLocker(t, client)
	for name, end := range map[string]func(lock *rlock.Lock){
		"DEL":           func(*rlock.Lock) { env.Do(t, client, "DEL", "k") },
		"another phase": func(*rlock.Lock) { env.Do(t, client, "SET", "k", "rlock:readers 1") },
		"somebody else": func(*rlock.Lock) { env.Do(t, client, "SET", "k", "foreign") },
		"its member gone": func(lock *rlock.Lock) {
			require.NoError(t, env.Admin(operator).ForceRelease(t.Context(), "k", lock.Token()))
		},
	} {
		env.Do(t, client, "FLUSHALL")
		lock := env.MustLock(t)(l.AcquireShared(t.Context(), "k", rlock.WithAutoExtend(true)))
		other := env.MustLock(t)(l.AcquireShared(t.Context(), "k", rlock.WithUniqueToken(true)))
		require.NoError(t, errors.Join(lock.Err(), other.Err()), name)
		ctx := lock.Context()
		end(lock)
		if name == "its member gone" {
			require.ErrorIs(t, lock.Verify(t.Context()), rlock.ErrLost, name)
			require.NoError(t, other.Err())
			require.NoError(t, other.Release(t.Context()))
			continue
		}
		env.Soon(t, func() bool { return ctx.Err() != nil }, name)
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost, name)
		require.ErrorIs(t, other.Extend(t.Context(), time.Minute), rlock.ErrLost, name)
		require.ErrorIs(t, other.Release(t.Context()), rlock.ErrLost, name)
	}
}

// ForceRelease by the Locker of the holder ends all locks that have what it frees, and no other. The Locker
// of this test hears of no lost key.
func TestForceReleaseOfShares(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		ctx, told := t.Context(), make(chan error, 3)
		l := env.NewLocker(t, client, rlock.WithTTL(time.Hour),
			rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
				if e.Kind == rlock.EventLost {
					told <- e.Err
				}
			})))
		holders := func(key string) []rlockadmin.Holder { return env.Inspect(t, l, key).Holders }
		ends := func(locks ...*rlock.Lock) {
			t.Helper()
			for _, lock := range locks {
				require.ErrorIs(t, lock.Verify(ctx), rlock.ErrLost)
				require.ErrorIs(t, env.Receive(t, told), rlock.ErrLost)
				require.ErrorIs(t, lock.Release(ctx), rlock.ErrLost)
			}
			require.Empty(t, told)
		}
		freed := func(key string) string {
			t.Helper()
			token := holders(key)[0].Token()
			require.NoError(t, env.Admin(l).ForceRelease(ctx, key, token))
			return token
		}

		permits := env.MustLock(t)(l.AcquirePermits(ctx, "permits", 2, 4))
		kept := env.MustLock(t)(l.AcquirePermits(ctx, "permits", 1, 4, rlock.WithTTL(2*time.Hour)))
		elsewhere := env.MustLock(t)(l.AcquirePermits(ctx, "elsewhere", 1, 4))
		token := freed("permits")
		ends(permits)
		require.NoError(t, kept.Verify(ctx))
		require.ErrorIs(t, env.Admin(l).ForceRelease(ctx, "permits", token), rlock.ErrLost)
		require.ErrorIs(t, env.Admin(l).ForceRelease(ctx, "permits", elsewhere.Token()), rlock.ErrLost)
		require.NoError(t, kept.Release(ctx))
		require.NoError(t, elsewhere.Release(ctx))

		readers := crowd(t, l, "readers", 3)
		alone := env.MustLock(t)(l.AcquireShared(ctx, "readers", rlock.WithUniqueToken(true),
			rlock.WithTTL(2*time.Hour)))
		freed("readers")
		ends(readers...)
		require.NoError(t, alone.Verify(ctx))
		require.NoError(t, alone.Release(ctx))

		idle(t, client)
	})
}

// What cannot be is refused, and says why.
func TestShareArguments(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := env.OpenOn(t, server)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"no limit":            func() error { return env.ErrorOf(l.AcquirePermits(ctx, "k", 1, 0)) },
		"more than there are": func() error { return env.ErrorOf(l.AcquirePermits(ctx, "k", 4, 3)) },
		"no permits":          func() error { return env.ErrorOf(l.TryAcquirePermits(ctx, "k", 0, 3)) },
		"too many":            func() error { return env.ErrorOf(l.TryAcquirePermits(ctx, "k", 1001, 3000)) },
		"a token": func() error {
			return env.ErrorOf(
				l.AcquireShared(ctx, "k", rlock.WithToken("t")))
		},
		"a share's token": func() error {
			return env.ErrorOf(
				l.Acquire(ctx, "k", rlock.WithToken("rlock:share:0:1:x")))
		},
		"a shared key's value": func() error {
			return env.ErrorOf(
				l.Acquire(ctx, "k", rlock.WithToken("rlock:readers 1")))
		},
		"the holders' name": func() error { return env.ErrorOf(l.AcquireShared(ctx, "rlock:holders:{1}:k")) },
	} {
		require.ErrorIs(t, call(), rlock.ErrInvalid, name)
	}
	require.Empty(t, must(env.Do(t, l.Client(), "KEYS", "*").AsStrSlice()), "nothing was sent")

	lock := env.MustLock(t)(l.AcquirePermits(ctx, "k", 2, 3))
	require.ErrorIs(t, env.ErrorOf(l.TryAcquireShared(ctx, "k")), rlock.ErrHeld, "readers wait for permits")
	more := env.MustLock(t)(l.AcquirePermits(ctx, "k", 2, 4))
	s := env.Inspect(t, l, "k")
	require.Equal(t, rlockadmin.Permits, s.Mode)
	require.Equal(t, 4, s.Limit, "the highest that a holder has named")
	require.Equal(t, 4, s.Permits)
	require.ErrorIs(t, env.ErrorOf(l.TryAcquirePermits(ctx, "k", 1, 4)), rlock.ErrHeld)
	require.NoError(t, lock.Release(ctx))
	require.ErrorIs(t, env.ErrorOf(l.TryAcquirePermits(ctx, "k", 1, 2)), rlock.ErrHeld, "by its own limit")
	require.NoError(t, more.Release(ctx))

	share := env.MustLock(t)(l.AcquireShared(ctx, "k"))
	require.Equal(t, rlockadmin.Readers, env.Inspect(t, l, "k").Mode)
	require.ErrorIs(t, env.ErrorOf(l.TryAcquirePermits(ctx, "k", 1, 3)), rlock.ErrHeld,
		"permits wait for readers")
	require.NoError(t, share.Release(ctx))
	idle(t, l.Client())
}

// resource counts who uses it.
type resource struct {
	readers, writers, permits atomic.Int64
	wrong                     atomic.Pointer[string]
}

// check keeps the first that was wrong.
func (r *resource) check(ok bool, what string) {
	if !ok {
		r.wrong.CompareAndSwap(nil, &what)
	}
}

// report tells t what was wrong.
func (r *resource) report(t *testing.T) {
	t.Helper()
	if wrong := r.wrong.Load(); wrong != nil {
		t.Error(*wrong)
	}
}

// Readers, writers and holders of permits of several processes never meet where they must not. The
// resource counts them.
func TestSharedResource(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		var rw, sem resource
		const limit = 3
		var work sync.WaitGroup
		for p := range 3 {
			l := env.OpenOn(t, server)
			for i := range 4 {
				work.Go(func() {
					for n := range 40 {
						var err error
						switch (i + n) % 4 {
						case 0:
							err = l.Do(t.Context(), "rw", func(context.Context, *rlock.Lock) error {
								rw.check(rw.writers.Add(1) == 1 && rw.readers.Load() == 0, "a writer is not alone")
								time.Sleep(time.Millisecond)
								rw.check(rw.readers.Load() == 0, "a reader came to a writer")
								rw.writers.Add(-1)
								return nil
							})
						case 1, 2:
							err = l.DoShared(t.Context(), "rw", func(context.Context, *rlock.Lock) error {
								rw.readers.Add(1)
								rw.check(rw.writers.Load() == 0, "a reader meets a writer")
								time.Sleep(time.Millisecond)
								rw.check(rw.writers.Load() == 0, "a writer came to a reader")
								rw.readers.Add(-1)
								return nil
							})
						case 3:
							want := int64(1 + (p+n)%2)
							err = l.DoPermits(t.Context(), "sem", int(want), limit, func(context.Context, *rlock.Lock) error {
								sem.check(sem.permits.Add(want) <= limit, "too many permits")
								time.Sleep(time.Millisecond)
								sem.permits.Add(-want)
								return nil
							})
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		work.Wait()
		for _, r := range []*resource{&rw, &sem} {
			r.report(t)
		}
		idle(t, server.Client(t))
	})
}

// A holder that dies has its permit until its lease ends. The one that waits has it soon after, and
// not at its next heartbeat, which would be a quarter of a second later as a rule. How late a busy
// machine is anyway is measured beside: by sleeping as long, and one command.
func TestCrashedHolder(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client, l, dying := server.Client(t), env.OpenOn(t, server), env.OpenOn(t, server)
		const keys = 9
		var late, machine [keys]time.Duration
		var measured sync.WaitGroup
		require.NoError(t, env.Together(keys, func(i int) error {
			key := fmt.Sprint("k", i)
			lease := 3*time.Second + time.Duration(i)*50*time.Millisecond
			asked := time.Now()
			dead, err := dying.AcquirePermits(t.Context(), key, 1, 2, rlock.WithTTL(lease))
			if err != nil {
				return err
			}
			answered := time.Now()
			measured.Go(func() {
				time.Sleep(time.Until(answered.Add(lease)))
				_ = env.Do(t, client, "PING").Error()
				machine[i] = time.Since(answered) - lease
			})
			live, err := l.AcquirePermits(t.Context(), key, 1, 2, rlock.WithAutoExtend(true))
			if err != nil {
				return err
			}
			if _, err := dead.Detach(); err != nil { // and nobody attaches it
				return err
			}
			next, err := l.AcquirePermits(t.Context(), key, 1, 2)
			if err != nil {
				return err
			}
			late[i] = time.Since(answered) - lease
			if time.Since(asked) < lease || live.Err() != nil {
				return errors.New("it has a permit that another still has")
			}
			return errors.Join(next.Release(t.Context()), live.Release(t.Context()))
		}))
		measured.Wait()
		slices.Sort(late[:])
		slices.Sort(machine[:])
		t.Log(late, machine)
		require.Less(t, late[keys/2], 150*time.Millisecond+10*machine[keys/2])
		idle(t, client)
	})
}

// letIn requires that a writer had to wait for no more reads than its readers do in a second where
// they always read: their number, and not a time, because a busy machine needs longer for both.
func letIn(t *testing.T, reads int64, readers int, read time.Duration) {
	t.Helper()
	require.Less(t, reads, int64(readers)*int64(time.Second/read), "reads before the writer")
}

// A writer gets in among readers who never all stop.
func TestWriterAmongReaders(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		var reads atomic.Int64
		const read = 20 * time.Millisecond
		for range 3 {
			l := env.OpenOn(t, server)
			for range 4 {
				readers.Go(func() {
					for ctx.Err() == nil {
						err := l.DoShared(ctx, "k",
							func(context.Context, *rlock.Lock) error { time.Sleep(read); reads.Add(1); return nil })
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
		}
		env.Soon(t, func() bool { return reads.Load() > 20 }, "they read")
		l := env.OpenOn(t, server)
		waits := make([]time.Duration, 10)
		for i := range waits {
			start, first := time.Now(), reads.Load()
			lock := env.MustLock(t)(l.Acquire(ctx, "k"))
			waits[i] = time.Since(start)
			before := reads.Load()
			letIn(t, before-first, 12, read)
			time.Sleep(5 * time.Millisecond)
			require.Equal(t, before, reads.Load())
			require.NoError(t, lock.Release(ctx))
			env.Soon(t, func() bool { return reads.Load() > before+5 }, "they read again")
		}
		stop()
		readers.Wait()
		t.Logf("a writer waited for %v among reads of %v", waits, read)
		slices.Sort(waits)
		require.Less(t, waits[0], time.Second)
	})
}

// TryDo of readers and permits runs the function with a share, or says that there is none.
func TestTryDoWithAShare(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, other := env.NewLocker(t, client), env.NewLocker(t, client)
		mine := errors.New("mine")
		for name, c := range map[string]struct {
			try   func(ctx context.Context, key string, fn func(context.Context, *rlock.Lock) error) (bool, error)
			block func(key string) (*rlock.Lock, error)
		}{
			"readers": {
				func(ctx context.Context, key string, fn func(context.Context, *rlock.Lock) error) (bool, error) {
					return locker.TryDoShared(ctx, key, fn)
				},
				func(key string) (*rlock.Lock, error) { return other.Acquire(t.Context(), key) },
			},
			"permits": {
				func(ctx context.Context, key string, fn func(context.Context, *rlock.Lock) error) (bool, error) {
					return locker.TryDoPermits(ctx, key, 2, 3, fn)
				},
				func(key string) (*rlock.Lock, error) { return other.AcquirePermits(t.Context(), key, 2, 3) },
			},
		} {
			ran, err := c.try(t.Context(), name, func(ctx context.Context, lock *rlock.Lock) error {
				return errors.Join(lock.Err(), lock.Verify(ctx), mine)
			})
			require.True(t, ran, name)
			require.ErrorIs(t, err, mine, name)
			require.Empty(t, env.Get(t, client, name), name)
			in := env.MustLock(t)(c.block(name))
			ran, err = c.try(t.Context(), name, func(context.Context, *rlock.Lock) error {
				t.Error("it runs beside another")
				return nil
			})
			require.NoError(t, err, name)
			require.False(t, ran, name)
			require.NoError(t, in.Release(t.Context()))
		}
	})
}
