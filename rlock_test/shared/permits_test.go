package shared

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// acquired is what an acquisition returns.
type acquired struct {
	lock *rlock.Lock
	err  error
}

// comes returns what an acquisition returns, which must not wait any longer.
func comes(t *testing.T, got chan acquired) acquired {
	t.Helper()
	return env.Receive(t, got)
}

// permitLine is two holders of the two permits of a key, one caller who waits in the queue of the server,
// and callers of the same Locker who wait behind it.
type permitLine struct {
	l      *rlock.Locker
	a, b   *rlock.Lock
	asks   chan acquired
	cancel context.CancelFunc // of the one who waits in the queue
}

// unhurried are the options of permits that no busy machine makes too old for the next caller.
func unhurried(more ...rlock.Option) []rlock.Option {
	return append([]rlock.Option{rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true)}, more...)
}

// waits has a caller wait for a permit, and returns when n wait.
func waits(t *testing.T, ctx context.Context, l *rlock.Locker, n int64) chan acquired {
	t.Helper()
	got := make(chan acquired, 1)
	go func() { lock, err := l.AcquirePermits(ctx, "k", 1, 2, unhurried()...); got <- acquired{lock, err} }()
	env.AwaitWaiting(t, l, n)
	return got
}

func newPermitLine(t *testing.T, l *rlock.Locker, client rueidis.Client, more ...rlock.Option) permitLine {
	t.Helper()
	p := permitLine{l: l}
	p.a = env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, unhurried(more...)...))
	p.b = env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, unhurried(more...)...))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	p.cancel, p.asks = cancel, waits(t, ctx, l, 1)
	queued(t, client, "k", 1)
	return p
}

// ends has everybody else of the line give up what they have.
func (p permitLine) ends(t *testing.T, client rueidis.Client, locks ...*rlock.Lock) {
	t.Helper()
	for _, lock := range locks {
		require.NoError(t, lock.Release(t.Context()))
	}
	if got := comes(t, p.asks); got.err == nil {
		require.NoError(t, got.lock.Release(t.Context()))
	}
	idle(t, client)
}

func openLine(t *testing.T, server *env.Server) *rlock.Locker {
	return env.OpenOn(t, server, rlock.WithTurn(time.Hour))
}

// A permit goes to the next caller of the process who waits, without a command, and with the fence of its
// phase. The former holder has nothing of it any more.
func TestPermitsGoToTheNextOfAProcess(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, l, client := env.NewFaulty(t, e, rlock.WithTurn(time.Hour))
		var releases atomic.Int32
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ReleaseSHA1) {
				releases.Add(1)
			}
			return run()
		})
		p := newPermitLine(t, l, client)
		first, second := waits(t, t.Context(), l, 2), waits(t, t.Context(), l, 3)
		inA := p.a.Context()
		require.NoError(t, p.a.Release(t.Context()))
		got := comes(t, first)
		require.NoError(t, got.err)
		require.NoError(t, got.lock.Release(t.Context()))
		last := comes(t, second)
		require.NoError(t, last.err)
		require.Zero(t, releases.Load(), "nothing is sent")
		require.ErrorIs(t, context.Cause(inA), rlock.ErrReleased)
		require.ErrorIs(t, p.a.Release(t.Context()), rlock.ErrReleased)
		require.Empty(t, p.a.Token())
		require.Equal(t, p.a.Fence(), last.lock.Fence())
		require.Zero(t, last.lock.Attempts())
		require.EqualValues(t, 2, l.Stats().HandedOver)
		require.Equal(t, 2, held(t, l, "k"))
		require.NoError(t, last.lock.Verify(t.Context()))
		require.NoError(t, last.lock.Extend(t.Context(), time.Hour))
		require.Empty(t, p.asks, "both permits are held")
		p.ends(t, client, last.lock, p.b)
	})
}

// A permit goes back to the server if somebody else may have its token, if the turn is over, or if it has a
// lease that the next caller does not want. The one in the queue of the server gets it.
func TestPermitsThatGoBackToTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turn time.Duration
		opts []rlock.Option
		do   func(t *testing.T, p permitLine)
	}{
		"its token was shown": {time.Hour, nil, func(_ *testing.T, p permitLine) { p.a.Token() }},
		"a token of its own":  {time.Hour, []rlock.Option{rlock.WithUniqueToken(true)}, nil},
		"another owner":       {time.Hour, []rlock.Option{rlock.WithOwner("other")}, nil},
		"no turns":            {0, nil, nil},
		"the turn is over":    {time.Nanosecond, nil, nil},
		"another lease by now": {time.Hour, nil,
			func(t *testing.T, p permitLine) { require.NoError(t, p.a.Extend(t.Context(), 2*time.Hour)) }},
		"a shorter lease by now": {time.Hour, nil,
			func(t *testing.T, p permitLine) { require.NoError(t, p.a.Extend(t.Context(), time.Minute)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			l := env.OpenOn(t, server, rlock.WithTurn(c.turn))
			p := newPermitLine(t, l, server.Client(t), c.opts...)
			next := waits(t, t.Context(), l, 2)
			if c.do != nil {
				c.do(t, p)
			}
			require.NoError(t, p.a.Release(t.Context()))
			got := comes(t, p.asks)
			require.NoError(t, got.err)
			require.Empty(t, next)
			require.Zero(t, l.Stats().HandedOver)
			require.NoError(t, p.b.Release(t.Context()))
			last := comes(t, next)
			require.NoError(t, last.err)
			require.NoError(t, got.lock.Release(t.Context()))
			require.NoError(t, last.lock.Release(t.Context()))
			idle(t, server.Client(t))
		})
	}
}

// A permit with an extension under way goes back to the server: if that arrives late, it lengthens the lease
// of nobody. Its answer, which comes when the next caller has a permit, changes nothing for that one.
func TestPermitReleasedDuringAnExtension(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl   time.Duration
		loses bool // the answer is lost
	}{
		"the same lease": {time.Hour, false}, "a lost answer": {time.Hour, true},
		"a longer lease": {2 * time.Hour, false}, "a shorter lease": {time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTurn(time.Hour))
			p := newPermitLine(t, l, client)
			next := waits(t, t.Context(), l, 2)
			gate := env.NewGate(t)
			var once atomic.Bool
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				if env.Calls(words, gen.ExtendSHA1) && once.CompareAndSwap(false, true) {
					gate.Pass()
					if c.loses {
						return env.NoReply()
					}
				}
				return answer
			})
			extended := make(chan error, 1)
			go func() { extended <- p.a.Extend(context.Background(), c.ttl) }()
			gate.Await(t)
			require.NoError(t, p.a.Release(t.Context()))
			got := comes(t, p.asks)
			p.asks = next
			require.NoError(t, got.err)
			gate.Open()
			require.ErrorIs(t, env.Receive(t, extended), rlock.ErrReleased)
			require.NoError(t, got.lock.Verify(t.Context()))
			require.NoError(t, got.lock.Extend(t.Context(), time.Hour))
			p.ends(t, client, got.lock, p.b)
		})
	}
}

// A caller who waits behind others and gives up costs nobody anything. When the one who asks the server
// gives up, the next asks.
func TestCallersInALineGiveUp(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := openLine(t, server)
	p := newPermitLine(t, l, server.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	impatient := waits(t, ctx, l, 2)
	limited := unhurried(rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
	require.ErrorIs(t, env.ErrorOf(l.AcquirePermits(t.Context(), "k", 1, 2, limited...)), rlock.ErrGaveUp)
	next, last := waits(t, t.Context(), l, 3), waits(t, t.Context(), l, 4)
	cancel()
	require.ErrorIs(t, comes(t, impatient).err, rlock.ErrGaveUp)
	p.cancel()
	require.ErrorIs(t, comes(t, p.asks).err, rlock.ErrGaveUp)
	queued(t, server.Client(t), "k", 1)
	require.NoError(t, p.a.Release(t.Context()))
	got := comes(t, last)
	require.NoError(t, got.err, "the next one asks, and the last one waits here")
	p.asks = next
	p.ends(t, server.Client(t), got.lock, p.b)
}

// The next who asks for a process has the place in the queue of the server of the one who gave up, before
// those of other processes who came later. Otherwise callers who wait for less long than the queue takes
// would have the others of their process begin at its end, for ever.
func TestPlaceOfACallerWhoGivesUp(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l, other := openLine(t, server), env.OpenOn(t, server)
	holders := env.OpenOn(t, server, rlock.WithTurn(0))
	a := env.MustLock(t)(holders.AcquirePermits(t.Context(), "k", 1, 2, unhurried()...))
	b := env.MustLock(t)(holders.AcquirePermits(t.Context(), "k", 1, 2, unhurried()...))
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	defer cancelFirst()
	defer cancelSecond()
	asks := waits(t, first, l, 1)
	queued(t, client, "k", 1)
	then, patient := waits(t, second, l, 2), waits(t, t.Context(), l, 3)
	late := waits(t, t.Context(), other, 1)
	queued(t, client, "k", 2)
	for _, quit := range []struct {
		got    chan acquired
		cancel func()
	}{{asks, cancelFirst}, {then, cancelSecond}} {
		before := inQueue(t, client, "k")
		quit.cancel()
		require.ErrorIs(t, comes(t, quit.got).err, rlock.ErrGaveUp)
		env.Soon(t, func() bool {
			now := inQueue(t, client, "k")
			return len(now) == 2 && !slices.Contains(now, before[0])
		}, "the next one asks")
	}
	require.NoError(t, a.Release(t.Context()))
	got := comes(t, patient)
	require.NoError(t, got.err)
	require.Empty(t, late, "it came later")
	require.NoError(t, b.Release(t.Context()))
	last := comes(t, late)
	require.NoError(t, last.err)
	require.NoError(t, got.lock.Release(t.Context()))
	require.NoError(t, last.lock.Release(t.Context()))
	idle(t, client)
}

// inQueue returns who waits in the queue of the server for a key, in their order.
func inQueue(t *testing.T, client rueidis.Client, key string) []string {
	t.Helper()
	names, err := env.Do(t, client, "KEYS", "rlock:queue:{*}:"+key).AsStrSlice()
	require.NoError(t, err)
	if len(names) == 0 {
		return nil
	}
	waiting, err := env.Do(t, client, "ZRANGE", names[0], "0", "-1").AsStrSlice()
	require.NoError(t, err)
	return waiting
}

// An observer that takes long when it is told that a caller has given up keeps no other caller waiting.
func TestObserverOfACallerWhoGivesUp(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(ctx context.Context, l *rlock.Locker,
		opts ...rlock.Option) (*rlock.Lock, error){
		"permits": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.AcquirePermits(ctx, "k", 1, 2, opts...)
		},
		"readers": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.AcquireShared(ctx, "k", opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			l := openLine(t, server)
			whole := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
			told := env.NewGate(t)
			observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
				if e.Kind == rlock.EventAcquireFailed {
					told.Pass()
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asks, next := make(chan error, 1), make(chan acquired, 1)
			go func() { asks <- env.ErrorOf(acquire(ctx, l, rlock.WithObserver(observer))) }()
			queued(t, server.Client(t), "k", 1)
			go func() { lock, err := acquire(t.Context(), l); next <- acquired{lock, err} }()
			env.AwaitWaiting(t, l, 2)
			cancel()
			told.Await(t)
			require.NoError(t, whole.Release(t.Context()))
			got := comes(t, next)
			told.Open()
			require.ErrorIs(t, env.Receive(t, asks), rlock.ErrGaveUp)
			require.NoError(t, got.err)
			require.NoError(t, got.lock.Release(t.Context()))
			idle(t, server.Client(t))
		})
	}
}

// A caller that panics while it is given a permit gives the permit up.
func TestCallerIsGivenAPermitAndPanics(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := openLine(t, server)
	p := newPermitLine(t, l, server.Client(t))
	gate, panicked := env.NewGate(t), make(chan any, 1)
	ctx, inLine := gate.InLine(t.Context())
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.AcquirePermits(panicking{ctx, gate}, "k", 1, 2, unhurried(inLine)...)
	}()
	gate.Await(t)
	require.NoError(t, p.a.Release(t.Context()))
	require.Empty(t, p.asks)
	gate.Open()
	require.Equal(t, "context", env.Receive(t, panicked))
	p.ends(t, server.Client(t), p.b)
}

// panicking is a context that panics when somebody has waited with it at a Gate.
type panicking struct {
	context.Context
	gate *env.Gate
}

func (c panicking) Done() <-chan struct{} {
	done := c.Context.Done()
	select {
	case <-c.gate.Reached():
		panic("context")
	default:
		return done
	}
}

// A caller that stands in the queue of the server and panics leaves its place to the next of its process.
func TestCallerWhoAsksPanics(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l, other := openLine(t, server), openLine(t, server)
	a := env.MustLock(t)(other.AcquirePermits(t.Context(), "k", 1, 2, unhurried()...))
	b := env.MustLock(t)(other.AcquirePermits(t.Context(), "k", 1, 2, unhurried()...))
	var fails atomic.Bool
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.AcquirePermits(t.Context(), "k", 1, 2,
			unhurried(rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
				if fails.Load() {
					panic("retry")
				}
				return 20 * time.Millisecond, true
			})))...)
	}()
	env.AwaitWaiting(t, l, 1)
	queued(t, server.Client(t), "k", 1)
	second := waits(t, t.Context(), l, 2)
	third := waits(t, t.Context(), other, 1)
	queued(t, server.Client(t), "k", 2)
	fails.Store(true)
	require.Equal(t, "retry", env.Receive(t, panicked))
	queued(t, server.Client(t), "k", 2)
	require.NoError(t, a.Release(t.Context()))
	got := comes(t, second)
	require.NoError(t, got.err)
	require.Empty(t, third, "it came later")
	require.NoError(t, got.lock.Release(t.Context()))
	require.NoError(t, b.Release(t.Context()))
	got = comes(t, third)
	require.NoError(t, got.err)
	require.NoError(t, got.lock.Release(t.Context()))
	idle(t, server.Client(t))
}

// Callers who wait end with their Locker, and what was given to one at that time is freed.
func TestCallersInALineAndTheirLocker(t *testing.T) {
	t.Parallel()
	client := env.Start(t).Client(t)
	for range 10 {
		l := env.NewLocker(t, client, rlock.WithTurn(time.Hour))
		p := newPermitLine(t, l, client)
		first, second := waits(t, t.Context(), l, 2), waits(t, t.Context(), l, 3)
		var work sync.WaitGroup
		work.Go(func() { _ = p.a.Release(context.Background()) })
		work.Go(l.Close)
		work.Wait()
		for _, got := range []acquired{comes(t, p.asks), comes(t, first), comes(t, second)} {
			if got.err != nil {
				require.ErrorIs(t, got.err, rlock.ErrClosed)
			} else {
				require.ErrorIs(t, got.lock.Err(), rlock.ErrClosed)
				_ = got.lock.Release(context.Background())
			}
		}
		_ = p.b.Release(context.Background())
		idle(t, client)
	}
}

// A permit that was lost before it was given to the next caller is lost for that one, and gives nothing
// back that somebody else has.
func TestPermitIsLostBeforeItIsGiven(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l := env.NewLocker(t, client, rlock.WithTurn(time.Hour)) // which nobody tells of lost keys
	p := newPermitLine(t, l, client)
	next := waits(t, t.Context(), l, 2)
	p.cancel()
	require.ErrorIs(t, comes(t, p.asks).err, rlock.ErrGaveUp)
	queued(t, client, "k", 1) // the next one asks now
	last := waits(t, t.Context(), l, 2)
	require.NoError(t, env.Do(t, client, "SET", "k", "another").Error())
	require.NoError(t, p.a.Release(t.Context()))
	got := comes(t, last)
	require.NoError(t, got.err)
	require.ErrorIs(t, got.lock.Verify(t.Context()), rlock.ErrLost)
	require.ErrorIs(t, got.lock.Release(t.Context()), rlock.ErrLost)
	require.ErrorIs(t, p.b.Release(t.Context()), rlock.ErrLost)
	require.Equal(t, "another", env.Get(t, client, "k"))
	require.NoError(t, env.Do(t, client, "DEL", "k").Error())
	p.asks = next
	p.ends(t, client)
}

// A permit that is freed by force on its way to the next caller is lost when that one has it.
func TestForceReleaseOfAPermitOnItsWay(t *testing.T) {
	t.Parallel()
	client := env.Start(t).Client(t)
	l := env.NewLocker(t, client, rlock.WithTurn(time.Hour)) // which nobody tells of lost keys
	p := newPermitLine(t, l, client)
	gate, next := env.NewGate(t), make(chan acquired, 1)
	ctx, inLine := gate.InLine(t.Context())
	go func() {
		lock, err := l.AcquirePermits(ctx, "k", 1, 2, unhurried(inLine)...)
		next <- acquired{lock, err}
	}()
	gate.Await(t)
	mine := p.b.Token()
	require.NoError(t, p.a.Release(t.Context()))
	holders := env.Inspect(t, l, "k").Holders
	require.Len(t, holders, 2, "the next one has it already")
	for _, h := range holders {
		if h.Token() != mine {
			require.NoError(t, env.Admin(l).ForceRelease(t.Context(), "k", h.Token()))
		}
	}
	other := comes(t, p.asks).lock // the first at the server gets what was freed
	gate.Open()
	got := comes(t, next)
	require.NoError(t, got.err)
	require.ErrorIs(t, got.lock.Verify(t.Context()), rlock.ErrLost)
	require.NoError(t, p.b.Verify(t.Context()))
	require.NoError(t, other.Err())
	require.NoError(t, p.b.Release(t.Context()))
	require.NoError(t, other.Release(t.Context()))
	idle(t, client)
}

// Callers with another limit work beside each other, as while a new version of a program is deployed. Each is
// admitted while no more are in use than its own limit says, and both go on.
func TestLimitsBesideEachOther(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		var work sync.WaitGroup
		for _, limit := range []int{4, 8} {
			for range 2 {
				l := env.OpenOn(t, server, rlock.WithTurn(0))
				for range 8 {
					work.Go(func() {
						for range 20 {
							lock, err := l.AcquirePermits(t.Context(), "k", 1, limit)
							if err != nil {
								t.Errorf("limit %d: %v", limit, err)
								return
							}
							s, err := env.Admin(l).Inspect(t.Context(), "k")
							if err != nil || s.Mode != rlockadmin.Permits || s.Permits > 8 {
								t.Errorf("limit %d: %v, %v", limit, s, err)
							}
							if err := lock.Release(t.Context()); err != nil {
								t.Errorf("limit %d: %v", limit, err)
							}
						}
					})
				}
			}
		}
		work.Wait()
		idle(t, server.Client(t))
	})
}

// Callers of several processes who want permits all the time, and different numbers of them, never have
// more than there are, and none of them starves.
func TestPermitsOfManyProcesses(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		var r resource
		var work sync.WaitGroup
		const limit = 5
		for range 3 {
			l := env.OpenOn(t, server)
			for i := range 12 {
				work.Go(func() {
					for n := range 40 {
						want := int64(1)
						if i == 0 {
							want = 3
						}
						ctx, cancel := t.Context(), context.CancelFunc(func() {})
						if i%4 == 3 {
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(n%5)*time.Millisecond)
						}
						lock, err := l.AcquirePermits(ctx, "k", int(want), limit)
						cancel()
						if err == nil {
							r.check(r.permits.Add(want) <= limit, "too many permits")
							time.Sleep(time.Millisecond)
							r.permits.Add(-want)
							err = lock.Release(t.Context())
						} else if i%4 == 3 {
							continue
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
		r.report(t)
		idle(t, server.Client(t))
	})
}

// A process whose callers want permits all the time keeps no other waiting for longer than a turn.
func TestTurnsOfPermits(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l, other := env.OpenOn(t, server), env.OpenOn(t, server)
	var work sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := l.DoPermits(t.Context(), "k", 1, 2, func(context.Context, *rlock.Lock) error {
					time.Sleep(100 * time.Microsecond)
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		lock, err := other.AcquirePermits(ctx, "k", 1, 2)
		cancel()
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	}
	require.NotZero(t, l.Stats().HandedOver)
	close(stop)
	work.Wait()
	idle(t, server.Client(t))
}

// Who waits for a permit has it with the message of the grant: it does not ask once more. Each time one
// permit is taken, one is asked for, and both are given up.
func TestScriptsOfAGrantedPermit(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b := env.OpenOn(t, server), env.OpenOn(t, server)
		kept := env.MustLock(t)(a.AcquirePermits(t.Context(), "k", 1, 2))
		var before int64
		const times = 20
		for i := range times + 1 {
			held := env.MustLock(t)(a.AcquirePermits(t.Context(), "k", 1, 2))
			got := make(chan *rlock.Lock, 1)
			go func() { got <- env.MustLock(t)(b.AcquirePermits(t.Context(), "k", 1, 2)) }()
			queued(t, client, "k", 1)
			require.NoError(t, held.Release(t.Context()))
			lock := env.Taken(t, got)
			require.NoError(t, lock.Release(t.Context()))
			if i == 0 { // b has subscribed
				before = server.ScriptCalls(t)
			}
		}
		require.LessOrEqual(t, server.ScriptCalls(t)-before, int64(4*times+times/2),
			"heartbeats come beside, if the machine is slow")
		require.NoError(t, kept.Release(t.Context()))
		idle(t, client)
	})
}
