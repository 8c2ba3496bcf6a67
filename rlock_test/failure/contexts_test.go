package failure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// caller has a Locker and what its calls need.
type caller struct {
	*rlock.Locker
	held    []*rlock.Lock // a token of one of them is known to others
	handoff rlock.Handoff
	prefix  string
}

func newCaller(t *testing.T, l *rlock.Locker, prefix string) *caller {
	c := &caller{Locker: l, prefix: prefix}
	for _, name := range []string{"extend", "verify", "each", "force"} {
		c.held = append(c.held, env.MustLock(t)(l.Acquire(t.Context(), c.key(name))))
	}
	c.handoff = env.Detach(t, env.MustLock(t)(l.Acquire(t.Context(), c.key("attach"))))
	return c
}

func (c *caller) key(name string) string { return c.prefix + name }

func (c *caller) keys(name string) []string {
	return []string{"{" + c.prefix + "}" + name + "1", "{" + c.prefix + "}" + name + "2"}
}

// publicCalls are those that end with their context. Release and ReleaseEach go on for two seconds.
func publicCalls() map[string]func(ctx context.Context, c *caller) error {
	work := func(context.Context, *rlock.Lock) error { return nil }
	return map[string]func(ctx context.Context, c *caller) error{
		"Acquire": func(ctx context.Context, c *caller) error { return env.ErrorOf(c.Acquire(ctx, c.key("a"))) },
		"TryAcquire": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryAcquire(ctx, c.key("b")))
		},
		"AcquireAll": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.AcquireAll(ctx, c.keys("c")))
		},
		"TryAcquireAll": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryAcquireAll(ctx, c.keys("d")))
		},
		"TryAcquireEach": func(ctx context.Context, c *caller) error {
			results, err := c.TryAcquireEach(ctx, []string{c.key("e"), c.key("f")})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
		"AcquireShared": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.AcquireShared(ctx, c.key("g")))
		},
		"TryAcquireShared": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryAcquireShared(ctx, c.key("h")))
		},
		"AcquirePermits": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.AcquirePermits(ctx, c.key("i"), 1, 2))
		},
		"TryAcquirePermits": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryAcquirePermits(ctx, c.key("j"), 1, 2))
		},
		"Do": func(ctx context.Context, c *caller) error { return c.Do(ctx, c.key("k"), work) },
		"TryDo": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryDo(ctx, c.key("l"), work))
		},
		"DoAll": func(ctx context.Context, c *caller) error { return c.DoAll(ctx, c.keys("m"), work) },
		"TryDoAll": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryDoAll(ctx, c.keys("n"), work))
		},
		"DoShared":  func(ctx context.Context, c *caller) error { return c.DoShared(ctx, c.key("o"), work) },
		"DoPermits": func(ctx context.Context, c *caller) error { return c.DoPermits(ctx, c.key("p"), 1, 2, work) },
		"TryDoShared": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryDoShared(ctx, c.key("o2"), work))
		},
		"TryDoPermits": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(c.TryDoPermits(ctx, c.key("p2"), 1, 2, work))
		},
		"Lead": func(ctx context.Context, c *caller) error { return c.Lead(ctx, c.key("q"), work) },
		"Leaders": func(ctx context.Context, c *caller) (err error) {
			for _, err = range c.Leaders(ctx, c.key("r")) {
			}
			return err
		},
		"WaitFree": func(ctx context.Context, c *caller) error { return c.WaitFree(ctx, c.key("verify")) },
		"Check":    func(ctx context.Context, c *caller) error { return env.ErrorOf(c.Check(ctx, c.key("s"))) },
		"Inspect": func(ctx context.Context, c *caller) error {
			return env.ErrorOf(env.Admin(c.Locker).Inspect(ctx, c.key("t")))
		},
		"Probe":  func(ctx context.Context, c *caller) error { return env.ErrorOf(c.Probe(ctx)) },
		"Attach": func(ctx context.Context, c *caller) error { return env.ErrorOf(c.Attach(ctx, c.handoff)) },
		"Extend": func(ctx context.Context, c *caller) error { return c.held[0].Extend(ctx, time.Hour) },
		"Verify": func(ctx context.Context, c *caller) error { return c.held[1].Verify(ctx) },
		"ExtendEach": func(ctx context.Context, c *caller) error {
			return c.ExtendEach(ctx, c.held[2:3], time.Hour)[0]
		},
		"ForceRelease": func(ctx context.Context, c *caller) error {
			return env.Admin(c.Locker).ForceRelease(ctx, c.key("force"), c.held[3].Token())
		},
	}
}

// ends are the ways in which the context of a call ends after 50 ms.
var ends = map[string]func(context.Context) (context.Context, context.CancelFunc){
	"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	},
	"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, cancel)
		return ctx, cancel
	},
	"cancelled before a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		time.AfterFunc(50*time.Millisecond, cancel)
		return ctx, cancel
	},
}

// endWithTheirContexts makes all calls at once. Each must end within a second of its context, as somebody
// notices who only waits for that.
func endWithTheirContexts(t *testing.T, c *caller, about string) {
	t.Helper()
	var (
		each    sync.WaitGroup
		mu      sync.Mutex
		wrong   []string
		longest time.Duration
		slow    string
	)
	for end, with := range ends {
		for name, call := range publicCalls() {
			each.Go(func() {
				ctx, cancel := with(t.Context())
				defer cancel()
				over := make(chan time.Time, 1)
				go func() { <-ctx.Done(); over <- time.Now() }()
				err := call(ctx, c)
				returned, own := time.Now(), ctx.Err()
				if deadline, limited := ctx.Deadline(); limited && !returned.Before(deadline) {
					own = context.DeadlineExceeded
				}
				cancel()
				late := returned.Sub(<-over)
				mu.Lock()
				defer mu.Unlock()
				if late > longest {
					longest, slow = late, name
				}
				switch {
				case late > time.Second:
					wrong = append(wrong, fmt.Sprintf("%s, %s: %v after its context: %v", name, end, late, err))
				case err == nil: // the server has answered after all, or before the fault
				case own == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
					wrong = append(wrong, fmt.Sprintf("%s, %s: the context of another: %v", name, end, err))
				}
			})
		}
	}
	each.Wait()
	t.Logf("%s: %v after its context at most (%s)", about, longest.Round(time.Millisecond), slow)
	require.Empty(t, wrong, about)
}

// releaseInTime releases while nobody answers: that takes two seconds from the end of the context.
func releaseInTime(t *testing.T, c *caller) {
	t.Helper()
	var each sync.WaitGroup
	for name, release := range map[string]func(ctx context.Context) error{
		"Release":     func(ctx context.Context) error { return c.held[0].Release(ctx) },
		"ReleaseEach": func(ctx context.Context) error { return errors.Join(c.ReleaseEach(ctx, c.held[2:3])...) },
	} {
		each.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			began := time.Now()
			assert.Error(t, release(ctx), name)
			assert.Less(t, time.Since(began), 3*time.Second, name)
		})
	}
	each.Wait()
}

// givenUp counts the calls that have a goroutine.
func givenUp() int {
	stacks := make([]byte, 1<<24)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "interrupt.(*call).make(")
}

// clients are those with which a Locker works.
var clients = map[string]func(t *testing.T, option rueidis.ClientOption) *rlock.Locker{
	"Open": func(t *testing.T, option rueidis.ClientOption) *rlock.Locker {
		return env.OpenLocker(t, option, rlock.WithTTL(time.Hour))
	},
	"New": func(t *testing.T, option rueidis.ClientOption) *rlock.Locker {
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return env.NewLocker(t, client, rlock.WithTTL(time.Hour))
	},
	"New, without a cache": func(t *testing.T, option rueidis.ClientOption) *rlock.Locker {
		option.DisableCache = true
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return env.NewLocker(t, client, rlock.WithTTL(time.Hour))
	},
}

// Every public call ends with its context, whatever the network and the server do.
func TestEveryCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	faults := map[string]func(t *testing.T, s *env.Server, p *env.Proxy, c *caller){
		"the network is silent":   func(_ *testing.T, _ *env.Server, p *env.Proxy, _ *caller) { p.BlackHole(true) },
		"the server stands still": func(_ *testing.T, s *env.Server, _ *env.Proxy, _ *caller) { s.Stop() },
		"new connections are silent": func(_ *testing.T, s *env.Server, p *env.Proxy, _ *caller) {
			s.Stop()
			p.Cut()
		},
		"3,000 calls have no answer": func(t *testing.T, s *env.Server, _ *env.Proxy, c *caller) {
			s.Stop()
			var each sync.WaitGroup
			for range 300 {
				each.Go(func() {
					for range 10 {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
						_ = c.held[1].Verify(ctx)
						cancel()
					}
				})
			}
			each.Wait()
		},
		"another caller dials": func(t *testing.T, s *env.Server, p *env.Proxy, c *caller) {
			s.Stop()
			p.Cut()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			ended := make(chan struct{})
			go func() { defer close(ended); _ = c.WaitFree(ctx, "long") }()
			t.Cleanup(func() { cancel(); <-ended })
			time.Sleep(10 * time.Millisecond)
		},
	}
	for fault, begin := range faults {
		t.Run(fault+"/Close", func(t *testing.T) {
			t.Parallel()
			server := env.Engines(t)[0].Start(t)
			proxy := env.NewProxy(t, server.Addr())
			l, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}, rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			begin(t, server, proxy, newCaller(t, l, "k"))
			began := time.Now()
			l.Close()
			require.Less(t, time.Since(began), 7*time.Second)
		})
		for kind, open := range clients {
			t.Run(fault+"/"+kind, func(t *testing.T) {
				t.Parallel()
				server := env.Engines(t)[0].Start(t)
				proxy := env.NewProxy(t, server.Addr())
				c := newCaller(t, open(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}), "k")
				begin(t, server, proxy, c)
				endWithTheirContexts(t, c, t.Name())
				releaseInTime(t, c)
				server.Cont()
				proxy.BlackHole(false)
				require.NoError(t, c.held[1].Verify(t.Context()))
			})
		}
	}
}

// What callers leave behind ends within the time-out of a dial, and is never much.
func TestCallsThatAreGivenUp(t *testing.T) {
	for kind, open := range clients {
		t.Run(kind, func(t *testing.T) {
			server := env.Engines(t)[0].Start(t)
			proxy := env.NewProxy(t, server.Addr())
			l := open(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
			require.NoError(t, l.WaitFree(t.Context(), "k"))
			server.Stop()
			proxy.Cut()
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_ = l.WaitFree(ctx, "k")
				cancel()
			}
			most := 1024
			if kind != "Open" {
				most = 64
			}
			require.LessOrEqual(t, givenUp(), most)
			env.Soon(t, func() bool { return givenUp() == 0 }, "every call that was given up has ended")
			server.Cont()
		})
	}
}

// Every public call ends with its context while a node of a cluster stands still, and those for other nodes
// are answered.
func TestEveryCallEndsWithItsContextOnACluster(t *testing.T) {
	t.Parallel()
	cluster := env.Engines(t)[0].StartCluster(t)
	for kind, open := range clients {
		t.Run(kind, func(t *testing.T) {
			l := open(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
			var all []*caller
			for i := range 6 {
				all = append(all, newCaller(t, l, fmt.Sprint(kind, i)))
			}
			silent := cluster.Nodes[1]
			var answers, fails string // keys of other nodes, and of that one
			for i := 0; answers == "" || fails == ""; i++ {
				key := fmt.Sprint(kind, "key", i)
				slot, err := env.Do(t, l.Client(), "CLUSTER", "KEYSLOT", key).ToInt64()
				require.NoError(t, err)
				require.NoError(t, l.WaitFree(t.Context(), key))
				if slot >= 5461 && slot <= 10921 { // of the second node
					fails = key
				} else {
					answers = key
				}
			}
			silent.Stop()
			defer silent.Cont()
			for _, c := range all {
				endWithTheirContexts(t, c, t.Name())
			}
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
				err := l.WaitFree(ctx, fails)
				cancel()
				require.Error(t, err)
			}
			env.Soon(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return l.WaitFree(ctx, answers) == nil
			}, "another node answers")
			silent.Cont()
		})
	}
}

// Every public call ends with its context while a primary is dead and its replica takes over.
func TestEveryCallEndsWithItsContextDuringAFailover(t *testing.T) {
	t.Parallel()
	for kind, open := range clients {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sentinel := env.Engines(t)[0].StartSentinel(t)
			c := newCaller(t, open(t, sentinel.Option()), "k")
			sentinel.Primary.Kill()
			for range 5 {
				endWithTheirContexts(t, c, t.Name())
			}
		})
	}
}

// A connection comes up although every context is shorter than a dial and its handshake.
func TestShortContextsAwaitADial(t *testing.T) {
	t.Parallel()
	for kind, open := range clients {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := env.Engines(t)[0].Start(t)
			proxy := env.NewProxy(t, server.Addr())
			l := open(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
			require.NoError(t, l.WaitFree(t.Context(), "k"))
			proxy.Delay(200 * time.Millisecond)
			inspect := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
				defer cancel()
				return l.WaitFree(ctx, "k")
			}
			env.Soon(t, func() bool { return inspect() == nil }, "the context is longer than a round trip")
			proxy.Cut()
			env.Soon(t, func() bool { return inspect() == nil }, "a connection is up again")
		})
	}
}

// So do contexts that end before the connection is made, on which nothing was said yet.
func TestShortContextsAwaitASlowConnection(t *testing.T) {
	t.Parallel()
	for kind, open := range clients {
		for end, with := range ends {
			t.Run(kind+"/"+end, func(t *testing.T) {
				t.Parallel()
				server := env.Engines(t)[0].Start(t)
				proxy := env.NewProxy(t, server.Addr())
				var slow atomic.Bool
				l := open(t, rueidis.ClientOption{
					InitAddress: []string{proxy.Addr()}, Dialer: net.Dialer{Timeout: 2 * time.Minute},
					DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
						if slow.Load() {
							select {
							case <-time.After(300 * time.Millisecond):
							case <-ctx.Done():
								return nil, ctx.Err()
							}
						}
						return d.DialContext(ctx, "tcp", addr)
					},
				})
				require.NoError(t, l.WaitFree(t.Context(), "k"))
				slow.Store(true)
				proxy.Cut()
				env.Soon(t, func() bool {
					ctx, cancel := with(t.Context())
					defer cancel()
					return l.WaitFree(ctx, "k") == nil
				}, "a connection is up again")
			})
		}
	}
}

// A call of a client that runs it on its own connection ends when it is cancelled, although it has a
// deadline.
func TestCancelledWithoutAPipeline(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]func([]rueidis.RedisMessage){
		"told nothing": nil, "RESP2 tells nothing": func([]rueidis.RedisMessage) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Engines(t)[0].Start(t)
			option := server.Option()
			option.AlwaysRESP2, option.DisableCache, option.PipelineMultiplex = true, true, -1
			option.OnInvalidations, option.ConnWriteTimeout = told, 8*time.Second
			l := env.OpenLocker(t, option)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			lock := env.MustLock(t)(l.TryAcquire(ctx, "job"))
			server.Stop()
			defer server.Cont()
			began := time.Now()
			time.AfterFunc(50*time.Millisecond, cancel)
			require.ErrorIs(t, lock.Verify(ctx), context.Canceled)
			require.Less(t, time.Since(began), 5*time.Second, "and not ConnWriteTimeout")
		})
	}
}

// watched counts the cached reads that have no goroutine of their own.
type watched struct {
	rueidis.Client
	direct atomic.Int64
}

func (w *watched) DoCache(
	ctx context.Context, command rueidis.Cacheable, ttl time.Duration,
) rueidis.RedisResult {
	if !strings.Contains(string(debug.Stack()), "interrupt.(*call).make(") {
		w.direct.Add(1)
	}
	return w.Client.DoCache(ctx, command, ttl)
}

// Checks that the cache answers, one soon after the other, cost no goroutine with a client of New either. The
// first one does, and so does one for a key that is not in the cache.
func TestChecksInARowNeedNoGoroutine(t *testing.T) {
	t.Parallel()
	server := env.Engines(t)[0].Start(t)
	client := &watched{Client: server.Client(t)}
	l := env.NewLocker(t, client)
	check := func(key string) { require.NoError(t, env.ErrorOf(l.Check(t.Context(), key))) }
	for i := range 100 {
		check(fmt.Sprint("cold", i))
	}
	require.Zero(t, client.direct.Load())
	env.Soon(t, func() bool {
		for range 100 {
			check("warm")
		}
		return client.direct.Load() > 10
	}, "Checks without a goroutine")
}
