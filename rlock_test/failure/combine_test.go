package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// crowd has many callers take and release locks of their own at the same time, so that their calls
// go together, and returns when all have done so some times.
func crowd(t *testing.T, locker *rlock.Locker, prefix string, turns int) (keys []string) {
	var wg sync.WaitGroup
	for caller := range 64 {
		key := fmt.Sprint(prefix, caller)
		keys = append(keys, key)
		wg.Go(func() {
			for range turns {
				lock, err := locker.Acquire(t.Context(), key, rlock.WithTTL(time.Hour))
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				for range 10 { // a busy machine may need longer than a Release tries
					if err = lock.Release(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
						break
					}
				}
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	wg.Wait()
	return keys
}

// A script for many callers whose reply is lost is repeated for each of them, and leaves nothing.
func TestLostReplyOfManyCalls(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, sha := range map[string]string{"acquire": gen.AcquireManySHA1, "release": gen.ReleaseManySHA1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLink(t, e)
				for range 3 {
					l.proxy.DropReply(env.Contains(sha))
					keys := crowd(t, l.locker, "job", 20)
					l.free(t, keys...)
				}
				require.Equal(t, 3, l.proxy.Dropped(), "calls went together")
			})
		}
	})
}

// What is wrong with the lock of one caller is nothing to the others whose calls go with it.
func TestOneOfManyCallsFails(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, test := range map[string]struct {
			prepare [][]string
			denied  bool
			text    string
		}{
			"no string":     {prepare: [][]string{{"RPUSH", "bad", "x"}}, text: "WRONGTYPE"},
			"no permission": {denied: true, text: "ermission"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t)
				server.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">secret", "~job*", "~rlock:*", "&*", "+@all")
				for _, words := range test.prepare {
					server.Do(t, words...)
				}
				locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
					if test.denied {
						o.Username, o.Password = "app", "secret"
					}
				}))
				stop := make(chan struct{})
				var failing sync.WaitGroup
				var failures atomic.Int64
				for range 4 {
					failing.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
							}
							lock, err := locker.TryAcquire(t.Context(), "bad")
							switch {
							case err == nil:
								t.Error("it is taken")
								_ = lock.Release(t.Context())
								return
							case strings.Contains(err.Error(), test.text):
								failures.Add(1)
							default:
								t.Error(err)
								return
							}
						}
					})
				}
				crowd(t, locker, "job", 20)
				close(stop)
				failing.Wait()
				require.Positive(t, failures.Load())
			})
		}
	})
}

// Two processes whose many callers want the same locks, whose waits are short, and whose calls go
// together: no lock has two holders, and nothing is left.
func TestManyCallsAndQueues(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		var holders [8]atomic.Int32
		var taken, late atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			locker := env.NewLocker(t, server.Client(t))
			for caller := range 96 {
				wg.Go(func() {
					for turn := range 20 {
						n := (caller + turn) % len(holders)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(caller*turn)%50)*time.Millisecond)
						lock, err := locker.Acquire(ctx, fmt.Sprint("shared", n))
						cancel()
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							late.Add(1)
						} else {
							if holders[n].Add(1) != 1 && lock.Err() == nil {
								t.Error("two holders")
							}
							taken.Add(1)
							holders[n].Add(-1)
							if err := lock.Release(t.Context()); err != nil {
								t.Error(err)
							}
						}
						own, err := locker.Acquire(t.Context(), fmt.Sprintf("own%p%d", locker, caller))
						if err != nil {
							t.Error(err)
						} else if err := own.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		t.Logf("%d taken, %d too late", taken.Load(), late.Load())
		require.Positive(t, taken.Load())
		env.Soon(t, func() bool {
			keys, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
			require.NoError(t, err)
			for _, key := range keys {
				if !strings.HasPrefix(key, "rlock:fence:") {
					return false
				}
			}
			return true
		}, "neither locks nor places are left behind")
	})
}

// Where some keys of a script are forbidden, the server refuses all of it. Then each call goes by itself:
// those for forbidden keys are refused, and the others have their locks.
func TestForbiddenKeysAmongManyCalls(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">secret", "~job*", "~rlock:*", "&*", "+@all")
		f := &env.Faulty{Client: server.Client(t,
			func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })}
		require.NoError(t, gen.New().Load(t.Context(), f.Client))
		var refused atomic.Int64
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			if env.Calls(words, gen.AcquireManySHA1) && reply.Error() != nil {
				refused.Add(1)
			}
			return reply
		})
		env.Soon(t, func() bool {
			locker := env.NewLocker(t, f) // a Locker that was refused sends each call by itself for a while
			require.NoError(t, env.Together(192, func(n int) error {
				key, forbidden := fmt.Sprint("job", n), n%3 == 1
				if forbidden {
					key = fmt.Sprint("other", n)
				}
				lock, err := locker.TryAcquire(t.Context(), key)
				switch {
				case forbidden && (err == nil || !strings.Contains(err.Error(), "ermission")):
					return fmt.Errorf("%s: %w, though it is forbidden", key, err)
				case forbidden:
					return nil
				case err != nil:
					return err
				}
				return lock.Release(t.Context())
			}))
			return refused.Load() > 0
		}, "a script for many calls is refused")
		reply := server.Do(t, "KEYS", "[jo]*")
		keys, err := reply.AsStrSlice()
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}

// Many calls for a server that another's script keeps busy are all told so, and have taken nothing.
func TestManyCallsForABusyServer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		option := server.Option()
		option.PipelineMultiplex = -1 // one connection, open already: who is busy takes no others
		locker := env.OpenLocker(t, option)
		warm, err := locker.Acquire(t.Context(), "warm")
		require.NoError(t, err)
		require.NoError(t, warm.Release(t.Context()))
		end := looping(t, server)
		require.NoError(t, env.Together(128, func(n int) error {
			lock, err := locker.TryAcquire(t.Context(), fmt.Sprint("job", n))
			if err == nil {
				_ = lock.Release(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), "BUSY") {
				return fmt.Errorf("the server is busy, and answers: %w", err)
			}
			return nil
		}))
		end()
		reply := server.Do(t, "KEYS", "job*")
		keys, err := reply.AsStrSlice()
		require.NoError(t, err)
		require.Empty(t, keys)
		crowd(t, locker, "job", 3)
	})
}
