package failure

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A leader whose context has ended, and that takes longer to stop than its lease lasts, still leads:
// the lease is extended until it has returned, and the next term begins after that.
func TestNextTermWaitsForASlowLeader(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		var leading atomic.Int32
		ctx, end := context.WithCancel(t.Context())
		defer end()
		begun, ended := make(chan uint64, 2), make(chan error, 2)
		lead := func(ctx context.Context, stops time.Duration) {
			ended <- env.NewLocker(t, server.Client(t)).Lead(ctx, "leader",
				func(ctx context.Context, lock *rlock.Lock) error {
					if leading.Add(1) > 1 {
						t.Error("there are two leaders")
					}
					defer leading.Add(-1)
					begun <- lock.Fence()
					if stops == 0 {
						return nil
					}
					<-ctx.Done()
					time.Sleep(stops)
					if err := lock.Err(); err != nil {
						t.Errorf("the term has ended before its leader: %v", err)
					}
					return nil
				}, rlock.WithTTL(8*time.Second))
		}
		go lead(ctx, 10*time.Second)
		first := env.Receive(t, begun)
		go lead(t.Context(), 0)
		end()
		require.NoError(t, env.Receive(t, ended))
		require.Greater(t, env.Receive(t, begun), first)
		require.NoError(t, env.Receive(t, ended))
	})
}

// A leader that cannot reach the server stops before the server gives the lock to another, and the next
// one does not wait longer than that. Time is that of a bubble, so that the moments are exact.
func TestTermEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		open := func() *rlock.Locker {
			locker, err := rlock.Open(server.Option())
			require.NoError(t, err)
			t.Cleanup(locker.Close)
			return locker
		}
		first, second := open(), open()
		began, stopped := make(chan time.Time, 1), make(chan time.Time, 1)
		var candidates sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		candidates.Go(func() {
			_ = first.Lead(ctx, "leader", func(ctx context.Context, lock *rlock.Lock) error {
				<-ctx.Done()
				if why := context.Cause(ctx); !errors.Is(why, rlock.ErrExpired) {
					t.Errorf("the term has ended because of %v", why)
				}
				if value, err := server.Redis().Get("leader"); err != nil || value != lock.Token() {
					t.Errorf("the lease has ended before the term: %v", err)
				}
				stopped <- time.Now()
				return nil
			}, rlock.WithTTL(ttl))
		})
		server.Advance(time.Minute)
		lift := server.Silence()
		silent := time.Now()
		end := <-stopped
		cancel()
		lift()
		candidates.Go(func() {
			_ = second.Lead(t.Context(), "leader", func(context.Context, *rlock.Lock) error {
				began <- time.Now()
				return nil
			})
		})
		next := <-began
		candidates.Wait()
		require.Less(t, end.Sub(silent), ttl)
		require.Less(t, next.Sub(end), time.Second)
	})
}

// However fn ends, the lock is free for the next leader, and the panic goes on.
func TestLeaderEndsWithoutReturning(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client)
		for name, end := range endings {
			for call, run := range map[string]func(fn func(context.Context, *rlock.Lock) error){
				"Lead": func(fn func(context.Context, *rlock.Lock) error) { _ = locker.Lead(t.Context(), "job", fn) },
				"DoValue": func(fn func(context.Context, *rlock.Lock) error) {
					_, _ = rlock.DoValue(t.Context(), locker, "job",
						func(ctx context.Context, l *rlock.Lock) (int, error) { return 1, fn(ctx, l) })
				},
				"TryDo": func(fn func(context.Context, *rlock.Lock) error) {
					_,
						_ = locker.TryDo(t.Context(), "job", fn)
				},
			} {
				var lock *rlock.Lock
				require.False(t, survive(func() {
					run(func(_ context.Context, l *rlock.Lock) error {
						lock = l
						end()
						return nil
					})
				}), "%s %s", call, name)
				require.ErrorIs(t, lock.Err(), rlock.ErrReleased, "%s %s", call, name)
				require.Empty(t, env.Get(t, client, "job"), "%s %s", call, name)
			}
		}
	})
}

// A Close in the middle of a term ends it. Lead waits for fn, and says why there is no next term.
func TestLeadIsClosed(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		for _, result := range []error{nil, errors.New("because of the end")} {
			locker := env.NewLocker(t, client)
			returned := false
			err := locker.Lead(t.Context(), "leader", func(ctx context.Context, lock *rlock.Lock) error {
				locker.Close()
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrClosed)
				time.Sleep(50 * time.Millisecond)
				returned = true
				return result
			})
			require.True(t, returned)
			require.ErrorIs(t, err, rlock.ErrClosed)
			require.NoError(t, env.Do(t, client, "DEL", "leader").Error())
		}
	})
}

// Replies that are lost, calls that are refused for a while, and a lock that somebody takes away by force
// end no candidacy, and no term has the number of another.
func TestLeadGoesOnAfterFaults(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		elsewhere := env.NewLocker(t, direct)
		lose := func(runs bool) env.Fault {
			var once sync.Once
			return func(words []string, run func() rueidis.RedisResult) (reply rueidis.RedisResult) {
				faulty := false
				once.Do(func() { faulty = true })
				if !faulty {
					return run()
				}
				if runs {
					run()
				}
				return env.NoReply()
			}
		}
		resigns := func(_ context.Context, lock *rlock.Lock) { require.NoError(t, lock.Release(t.Context())) }
		steps := []func(ctx context.Context, lock *rlock.Lock){
			func(ctx context.Context, lock *rlock.Lock) { resigns(ctx, lock); f.When(lose(true)) },
			func(ctx context.Context, lock *rlock.Lock) { resigns(ctx, lock); f.When(lose(false)) },
			func(ctx context.Context, lock *rlock.Lock) { f.When(lose(true)); resigns(ctx, lock) },
			func(ctx context.Context, lock *rlock.Lock) { f.When(lose(false)); resigns(ctx, lock) },
			func(ctx context.Context, lock *rlock.Lock) {
				require.NoError(t, env.Admin(elsewhere).ForceRelease(t.Context(), "leader", lock.Token()))
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
			},
			func(ctx context.Context, lock *rlock.Lock) {
				require.NoError(t, env.Do(t, direct, "SET", "leader", "stranger", "PX", "300").Error())
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
			},
			func(ctx context.Context, lock *rlock.Lock) {
				resigns(ctx, lock)
				f.RefuseAll()
				time.AfterFunc(300*time.Millisecond, func() { f.When(nil) })
			},
		}
		terms := 0
		var last uint64
		require.NoError(t, locker.Lead(t.Context(), "leader", func(ctx context.Context, lock *rlock.Lock) error {
			f.When(nil)
			require.Greater(t, lock.Fence(), last)
			require.NoError(t, lock.Err())
			last = lock.Fence()
			terms++
			if terms <= len(steps) {
				steps[terms-1](ctx, lock)
			}
			return nil
		}, rlock.WithTTL(5*time.Second)))
		require.Equal(t, len(steps)+1, terms)
		env.Soon(t, func() bool { return env.Get(t, direct, "leader") == "" }, "nothing is left")
	})
}

// A leader that is stopped for longer than its lease finds its term over, and another one's number is larger.
func TestLeaderPausesBeyondItsLease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		other := env.NewLocker(t, direct)
		var first, second uint64
		err := locker.Lead(t.Context(), "leader", func(ctx context.Context, lock *rlock.Lock) error {
			if first != 0 {
				require.Greater(t, lock.Fence(), second)
				return errors.New("done")
			}
			first = lock.Fence()
			f.When(
				env.Once(
					gen.ExtendSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() },
				),
			)
			// as a pause, which the server does not wait for
			require.NoError(t, env.Do(t, direct, "PEXPIRE", "leader", "1").Error())
			require.NoError(t, other.Lead(t.Context(), "leader", func(_ context.Context, lock *rlock.Lock) error {
				second = lock.Fence()
				return nil
			}))
			require.Greater(t, second, first)
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			return errors.New("of a term that is over")
		}, rlock.WithTTL(10*time.Second))
		require.EqualError(t, err, "done")
	})
}

// A server that crashes ends terms if it loses the data, or stays away for longer than the lease. Candidates
// and who looks on wait for it, and go on when it is back.
func TestLeadGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for name, c := range map[string]struct {
		away time.Duration
		data rlocktest.Data
		term int // which leads after the crash
	}{
		"a moment, with its data":    {100 * time.Millisecond, rlocktest.KeepData, 1},
		"a moment, without its data": {100 * time.Millisecond, rlocktest.LoseData, 2},
		"a minute, with its data":    {time.Minute, rlocktest.KeepData, 2},
		"a minute, without its data": {time.Minute, rlocktest.LoseData, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rlocktest.StartInMemory(t)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				var leading, terms, last atomic.Int64
				for range 3 {
					locker, err := rlock.Open(server.Option())
					require.NoError(t, err)
					t.Cleanup(locker.Close)
					running.Go(func() {
						err := locker.Lead(ctx, "leader", func(ctx context.Context, lock *rlock.Lock) error {
							defer leading.Add(-1)
							// A leader whose lock a server has lost learns of it a little later.
							if leading.Add(1) > 1 && (c.data == rlocktest.KeepData || c.away > ttl) {
								t.Error("there are two leaders")
							}
							terms.Add(1)
							if fence := int64(lock.Fence()); fence <= last.Swap(fence) {
								t.Error("the term is no later than the one before")
							}
							<-ctx.Done()
							return nil
						}, rlock.WithTTL(ttl))
						if err != nil && !errors.Is(err, rlock.ErrGaveUp) {
							t.Error(err)
						}
					})
				}
				viewer, err := rlock.Open(server.Option())
				require.NoError(t, err)
				t.Cleanup(viewer.Close)
				seen := make(chan rlock.State, 100)
				running.Go(func() {
					for state, err := range viewer.Leaders(ctx, "leader") {
						if err != nil {
							t.Error(err)
						}
						seen <- state
					}
				})
				server.Advance(time.Minute)
				require.EqualValues(t, 1, terms.Load())
				server.Stop()
				server.Advance(c.away)
				require.NoError(t, server.Restart(c.data))
				server.Advance(2 * ttl)
				require.EqualValues(t, c.term, terms.Load())
				require.EqualValues(t, 1, leading.Load())
				state := env.HolderOf(t, viewer, "leader")
				var shown rlock.State
				for len(seen) > 0 {
					shown = <-seen
				}
				require.True(t, shown.Held)
				require.Equal(t, state.Token(), shown.Token())
				cancel()
				running.Wait()
			})
		})
	}
}

// Whoever looks at a server that is gone, through a client that Close does not close, ends with the Locker.
func TestCloseWhileTheServerIsGone(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(l *rlock.Locker) error{
		"Leaders": func(l *rlock.Locker) error {
			for _, err := range l.Leaders(context.Background(), "job") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"WaitFree": func(l *rlock.Locker) error { return l.WaitFree(context.Background(), "job") },
	} {
		for how, end := range map[string]func(*env.Server, *env.Proxy){
			"dead":   func(s *env.Server, _ *env.Proxy) { s.Kill() },
			"silent": func(_ *env.Server, p *env.Proxy) { p.BlackHole(true) },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				server := env.Start(t)
				proxy := env.NewProxy(t, server.Addr())
				locker, err := rlock.New(server.Client(t,
					func(o *rueidis.ClientOption) { o.InitAddress = []string{proxy.Addr()} }))
				require.NoError(t, err)
				env.MustLock(t)(env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
				ended := make(chan error, 1)
				go func() { ended <- wait(locker) }()
				time.Sleep(300 * time.Millisecond)
				end(server, proxy)
				time.Sleep(700 * time.Millisecond) // it looks again
				locker.Close()
				// A look that such a client has begun ends with its time limit, and no other begins.
				require.ErrorIs(t, env.Receive(t, ended), rlock.ErrClosed)
			})
		}
	}
}
