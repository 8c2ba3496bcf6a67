package failure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// inBubble runs a test in a bubble of testing/synctest, with a server and two Lockers.
func inBubble(t *testing.T, test func(t *testing.T, server *rlocktest.Server, locker, rival *rlock.Locker)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		open := func() *rlock.Locker {
			locker, err := rlock.Open(server.Option())
			require.NoError(t, err)
			t.Cleanup(locker.Close)
			return locker
		}
		test(t, server, open(), open())
	})
}

// calls are those that ask the server, about a lock that is held where they need one.
var calls = map[string]func(ctx context.Context, l *rlock.Locker, held *rlock.Lock) error{
	"acquire": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.ErrorOf(l.Acquire(ctx, "job"))
	},
	"try": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.ErrorOf(l.TryAcquire(ctx, "job"))
	},
	"try each": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		results, err := l.TryAcquireEach(ctx, []string{"a", "b"})
		return errors.Join(err, results[1].Err)
	},
	"try a key that is held here": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.ErrorOf(l.TryAcquire(ctx, "held"))
	},
	"do": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return l.Do(ctx, "job", func(context.Context, *rlock.Lock) error { return nil })
	},
	"set": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.ErrorOf(l.AcquireAll(ctx, []string{"a", "b"}))
	},
	"reader": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.ErrorOf(l.AcquireShared(ctx, "job"))
	},
	"permit": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.ErrorOf(l.AcquirePermits(ctx, "job", 1, 3))
	},
	"wait": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error { return l.WaitFree(ctx, "job") },
	"extend": func(ctx context.Context, _ *rlock.Locker,
		held *rlock.Lock) error {
		return held.Extend(ctx, time.Hour)
	},
	"release": func(ctx context.Context, _ *rlock.Locker, held *rlock.Lock) error { return held.Release(ctx) },
	"verify": func(ctx context.Context, _ *rlock.Locker, held *rlock.Lock) error {
		err := held.Verify(ctx)
		return err
	},
	"check": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		_, err := l.Check(ctx, "job")
		return err
	},
	"inspect": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		_, err := env.Admin(l).Inspect(ctx, "job")
		return err
	},
	"force release": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.Admin(l).ForceRelease(ctx, "job", "token")
	},
	"extend by its token": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
		return env.Admin(l).Extend(ctx, "job", "token", time.Second)
	},
}

// Whatever the call, its error says that the server does not answer, and no more: not that somebody holds the
// lock.
func TestNoAnswerIsTold(t *testing.T) {
	t.Parallel()
	for fault, begin := range map[string]func(*rlocktest.Server){
		"silent":  func(s *rlocktest.Server) { s.Silence() },
		"stopped": func(s *rlocktest.Server) { s.Stop() },
	} {
		for name, call := range calls {
			t.Run(fault+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, _ *rlock.Locker) {
					held := env.MustLock(t)(locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Hour)))
					begin(server)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					err := call(ctx, locker, held)
					require.ErrorIs(t, err, rlock.ErrNoAnswer)
					require.NotErrorIs(t, err, rlock.ErrHeld)
					require.ErrorContains(t, err, "the server has not answered")
					if fault == "silent" {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					var facts *rlock.AcquireError
					if errors.As(err, &facts) {
						require.Zero(t, facts.Remaining)
					}
				})
			})
		}
	}
}

// What the server refuses, and what others hold, is no outage; a server that loads its data is one.
func TestWhatIsNoOutage(t *testing.T) {
	t.Parallel()
	for text, outage := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":         true,
		"CLUSTERDOWN Hash slot not served":                       true,
		"OOM command not allowed when used memory > 'maxmemory'": false,
		"NOPERM this user has no permissions":                    false,
		"WRONGTYPE Operation against a key":                      false,
		"MISCONF Redis is configured to save RDB snapshots":      false,
	} {
		for name, call := range calls {
			if name == "check" {
				continue // it reads the cache, whose commands these faults do not meet
			}
			t.Run(text[:6]+"/"+name, func(t *testing.T) {
				t.Parallel()
				f, locker, _ := env.NewFaulty(t, env.Engines(t)[0])
				held := env.MustLock(t)(locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Hour)))
				ctx, exceed := env.Deadline(t.Context())
				var asked sync.Once
				f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
					asked.Do(func() { time.AfterFunc(time.Second, exceed) })
					return f.Refuse(text)
				})
				err := call(ctx, locker, held)
				require.Error(t, err)
				require.Equal(t, outage, errors.Is(err, rlock.ErrNoAnswer), err)
				if outage {
					require.ErrorContains(t, err, "the server cannot serve yet")
				}
			})
		}
	}
}

// Of those who wait in one line of a process, one asks the server. The others know as much as that one.
func TestTheLineKnowsOfTheOutage(t *testing.T) {
	t.Parallel()
	for fault, begin := range map[string]func(*rlocktest.Server){
		"silent":  func(s *rlocktest.Server) { s.Silence() },
		"stopped": func(s *rlocktest.Server) { s.Stop() },
	} {
		for name, limit := range map[string]time.Duration{"short": 300 * time.Millisecond,
			"long": 5 * time.Second} {
			for _, kind := range []string{"acquire", "reader", "permit"} {
				t.Run(fault+"/"+name+"/"+kind, func(t *testing.T) {
					inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, _ *rlock.Locker) {
						env.MustLock(t)(locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Hour)))
						begin(server)
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						defer cancel()
						require.NoError(t, env.Together(10, func(int) error {
							if err := calls[kind](ctx, locker, nil); !errors.Is(err, rlock.ErrNoAnswer) ||
								errors.Is(err, rlock.ErrHeld) {
								return err
							}
							return nil
						}))
					})
				})
			}
		}
	}
}

// A holder that was seen is a holder until the server has been silent for a second, and then nobody knows.
func TestHolderBeforeTheOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent time.Duration // before the end of the call
		outage bool
	}{"a moment": {100 * time.Millisecond, false}, "long": {4 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, rival *rlock.Locker) {
				env.MustLock(t)(rival.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				time.AfterFunc(10*time.Second-c.silent, func() { server.Silence() })
				err := env.ErrorOf(locker.Acquire(ctx, "job"))
				require.ErrorIs(t, err, rlock.ErrGaveUp)
				require.Equal(t, c.outage, errors.Is(err, rlock.ErrNoAnswer), err)
				require.Equal(t, !c.outage, errors.Is(err, rlock.ErrHeld), err)
			})
		})
	}
}

// One who waits behind another for a short time finds its question under way, and takes that for an outage
// only when it has been for long.
func TestShortWaitBehindAQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, rival *rlock.Locker) {
		env.MustLock(t)(rival.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
		first, cancelFirst := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- env.ErrorOf(locker.Acquire(first, "job")) }()
		briefly := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			return env.ErrorOf(locker.Acquire(ctx, "job"))
		}
		time.Sleep(5 * time.Second)
		server.Silence()
		time.Sleep(1050 * time.Millisecond) // a heartbeat of the first is due once a second
		err := briefly()
		require.NotErrorIs(t, err, rlock.ErrNoAnswer)
		require.ErrorIs(t, err, rlock.ErrHeld)
		time.Sleep(3 * time.Second)
		err = briefly()
		require.ErrorIs(t, err, rlock.ErrNoAnswer)
		require.NotErrorIs(t, err, rlock.ErrHeld)
		cancelFirst()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// The time of a policy is a limit also if the server is silent, and no limit for the work of Do.
func TestMaxTimeOfASilentServer(t *testing.T) {
	inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, _ *rlock.Locker) {
		briefly := rlock.WithRetry(rlock.DefaultRetry().MaxTime(time.Second / 2))
		require.NoError(t, locker.Do(t.Context(), "job", func(ctx context.Context, _ *rlock.Lock) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		}, briefly))
		server.Silence()
		for name, call := range map[string]func() error{
			"Acquire": func() error { return env.ErrorOf(locker.Acquire(t.Context(), "job", briefly)) },
			"Do": func() error {
				return locker.Do(t.Context(), "job", func(context.Context, *rlock.Lock) error { return nil }, briefly)
			},
			"WaitFree": func() error { return locker.WaitFree(t.Context(), "job", briefly) },
		} {
			start := time.Now()
			err := call()
			require.ErrorIs(t, err, rlock.ErrNoAnswer, name)
			require.ErrorIs(t, err, rlock.ErrGaveUp, name)
			require.LessOrEqual(t, time.Since(start), 1600*time.Millisecond, name)
		}
	})
}

// A caller who leaves soon has not waited for an answer, and one who stays has.
func TestCancelledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after  time.Duration
		outage bool
	}{"soon": {100 * time.Millisecond, false}, "late": {3 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, _ *rlock.Locker) {
				server.Silence()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(c.after, cancel)
				err := env.ErrorOf(locker.Acquire(ctx, "job"))
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, c.outage, errors.Is(err, rlock.ErrNoAnswer), err)
			})
		})
	}
}

// Nothing that was not sent has no answer. A Release is sent all the same.
func TestNotSentIsNoOutage(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		if name == "release" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, _ *rlock.Locker) {
				held := env.MustLock(t)(locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Hour)))
				ctx, cancel := context.WithTimeout(t.Context(), 0)
				defer cancel()
				err := call(ctx, locker, held)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, rlock.ErrNoAnswer)
			})
		})
	}
}

// A Release that tries for as long as it may says that there is no answer, however its last try has ended.
func TestReleaseWithoutAnswer(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			server := rlocktest.StartInMemory(t)
			locker, err := rlock.Open(server.Option())
			require.NoError(t, err)
			t.Cleanup(locker.Close)
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
			server.Stop()
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrNoAnswer)
			require.EqualValues(t, 1, locker.Stats().ReleaseFailedBy[rlock.ReasonNoAnswer])
		})
	}
}

// Callers of one line who leave one after the other, each before the server can have answered it, have seen
// no outage. Those of a server that is silent have, if each stays for longer than the server took to answer
// before.
func TestTheLineLeavesOneByOne(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]bool{"slow": false, "silent": true} {
		for _, kind := range []string{"acquire", "reader", "permit"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, server *rlocktest.Server, locker, rival *rlock.Locker) {
					env.MustLock(t)(rival.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
					if outage {
						server.Delay(20 * time.Millisecond)
						time.AfterFunc(5*time.Second, func() { server.Silence() })
					} else {
						server.Delay(300 * time.Millisecond)
					}
					require.NoError(t, env.Together(30, func(i int) error {
						limit := 6*time.Second + time.Duration(i)*100*time.Millisecond
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						defer cancel()
						err := calls[kind](ctx, locker, nil)
						if late := i >= 20; errors.Is(err, rlock.ErrNoAnswer) != outage && (late || !outage) {
							return fmt.Errorf("after %v: %w", limit, err)
						}
						return nil
					}))
				})
			})
		}
	}
}
