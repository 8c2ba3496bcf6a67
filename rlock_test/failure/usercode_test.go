package failure

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
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

// endings are how user code ends without returning. Servers and test frameworks recover
// from both, so that the process goes on.
var endings = map[string]func(){
	"panic":  func() { panic("user code") },
	"Goexit": runtime.Goexit,
}

// survive calls f in a goroutine of its own and reports whether it returned. A call that ends in neither way
// within a minute ends the program, because nobody knows what it holds.
func survive(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		id := goroutine.FindSubmatch(debug.Stack())[1]
		survivors.Store(string(id), true)
		defer survivors.Delete(string(id))
		f()
		returned = true
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		panic("the call does not end")
	}
	return returned
}

// survivors has the numbers of the goroutines of survive.
var (
	survivors sync.Map
	goroutine = regexp.MustCompile(`^goroutine (\d+) `)
	madeBy    = regexp.MustCompile(`interrupt\.\(\*call\)\.run in goroutine (\d+)`)
)

// surviving reports whether it is called in a goroutine of survive, or in that of a call which was made
// there.
func surviving() bool {
	stack := debug.Stack()
	for _, number := range []*regexp.Regexp{goroutine, madeBy} {
		if id := number.FindSubmatch(stack); id != nil {
			if _, ok := survivors.Load(string(id[1])); ok {
				return true
			}
		}
	}
	return false
}

// bomb is an Observer that ends the goroutine at the first event of a kind.
type bomb struct {
	kind     rlock.EventKind
	end      func()
	anywhere bool // not just in a goroutine of survive
	armed    atomic.Bool
	fired    atomic.Bool
}

func (b *bomb) Observe(_ context.Context, e rlock.Event) {
	if e.Kind == b.kind && b.armed.Load() && (b.anywhere || surviving()) && b.fired.CompareAndSwap(false, true) {
		b.end()
	}
}

// site is where user code ends a call of a Locker.
type site struct {
	t      *testing.T
	f      *env.Faulty
	locker *rlock.Locker // with the observer
	plain  *rlock.Locker // another one
	direct rueidis.Client
	handle []*rlock.Lock // what the caller has, and gives back at the end
	group  sync.WaitGroup
}

var siteKeys = []string{"a", "b", "c"}

// kept takes what a call has returned.
func (s *site) kept(lock *rlock.Lock, err error) *rlock.Lock {
	if err == nil {
		s.handle = append(s.handle, lock)
	}
	return lock
}

// have takes a lock before the observer is armed.
func (s *site) have(keys ...string) *rlock.Lock {
	s.t.Helper()
	lock, err := s.locker.AcquireAll(s.t.Context(), keys)
	require.NoError(s.t, err)
	return s.kept(lock, err)
}

// foreign has somebody else hold a key.
func (s *site) foreign(key string, left time.Duration) {
	s.t.Helper()
	words := []string{"SET", key, "foreign"}
	if left > 0 {
		words = append(words, "PX", fmt.Sprint(left.Milliseconds()))
	}
	require.NoError(s.t, env.Do(s.t, s.direct, words...).Error())
}

// behind releases a lock of this process when the one who calls waits for it.
func (s *site) behind(key string) {
	s.t.Helper()
	first := s.have(key)
	s.group.Go(func() {
		for end := time.Now().Add(5 * time.Second); first.Err() == nil && s.locker.Stats().Waiting == 0 &&
			time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		_ = first.Release(context.Background())
	})
}

// clear checks that what user code left behind is nothing, once the caller has given
// its handles back: every key can be had, by this Locker and by others, with and without
// waiting, and nobody waits.
func (s *site) clear() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, lock := range s.handle {
		_ = lock.Release(ctx)
	}
	s.group.Wait()
	for _, key := range siteKeys {
		if env.Get(s.t, s.direct, key) == "foreign" {
			require.NoError(s.t, env.Do(s.t, s.direct, "DEL", key).Error())
		}
	}
	for _, locker := range []*rlock.Locker{s.locker, s.plain} {
		for _, key := range siteKeys {
			lock, err := locker.Acquire(ctx, key)
			if err != nil && locker == s.locker && locker.Stats().Closed > 0 {
				continue // the test closed it
			}
			require.NoError(s.t, err, key)
			require.NoError(s.t, lock.Release(ctx))
			lock, err = locker.TryAcquire(ctx, key)
			require.NoError(s.t, err, key)
			require.NoError(s.t, lock.Release(ctx))
		}
	}
	env.Soon(s.t, func() bool { return s.locker.Stats().Waiting == 0 }, "nobody waits")
	require.Empty(s.t, s.locker.Locks())
}

// fewTries is a policy that gives up soon.
func fewTries() rlock.Option {
	return rlock.WithRetry(rlock.Fixed(5 * time.Millisecond).MaxAttempts(3))
}

// A panic does not wait for a silent server longer than Release does: not for the time-outs of the client.
func TestPanicBesideASilentServer(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
		o.InitAddress = []string{proxy.Addr()}
		o.ConnWriteTimeout = time.Minute
	}))
	breaks := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventAcquired {
			proxy.BlackHole(true)
			panic("it is the user's")
		}
	})
	began := time.Now()
	require.PanicsWithValue(t, "it is the user's",
		func() { _, _ = locker.Acquire(t.Context(), "job", rlock.WithObserver(breaks)) })
	require.Less(t, time.Since(began), 20*time.Second)
	proxy.BlackHole(false)
	env.Soon(t, func() bool { return env.Get(t, server.Client(t), "job") == "" }, "it is freed")
}

// An observer that panics, or ends its goroutine, at any event of any call, leaves
// nothing locked that nobody has a handle of, and nobody stranded.
func TestObserverEndsACall(t *testing.T) {
	t.Parallel()
	const (
		contended     = rlock.EventContended
		acquired      = rlock.EventAcquired
		attached      = rlock.EventAttached
		acquireFailed = rlock.EventAcquireFailed
		extended      = rlock.EventExtended
		extendFailed  = rlock.EventExtendFailed
		released      = rlock.EventReleased
		releaseFailed = rlock.EventReleaseFailed
		lost          = rlock.EventLost
		detached      = rlock.EventDetached
		closed        = rlock.EventClosed
	)
	work := func(context.Context, *rlock.Lock) error { return nil }
	type call struct {
		kinds   []rlock.EventKind
		prepare func(s *site) (run func(ctx context.Context))
	}
	acquire := func(opts ...rlock.Option) func(s *site) func(context.Context) {
		return func(s *site) func(context.Context) {
			return func(ctx context.Context) { s.kept(s.locker.Acquire(ctx, "a", opts...)) }
		}
	}
	after := func(before func(s *site),
		then func(s *site) func(context.Context)) func(s *site) func(context.Context) {
		return func(s *site) func(context.Context) {
			before(s)
			return then(s)
		}
	}
	here := func(s *site) { s.behind("a") }
	soonFree := func(s *site) { s.foreign("a", 2*time.Second) }
	heldHere := func(s *site) { s.have("a") }
	heldElsewhere := func(s *site) { s.foreign("b", 0); s.foreign("a", 0) }
	tryIt := func(s *site) func(context.Context) {
		return func(ctx context.Context) { s.kept(s.locker.TryAcquire(ctx, "a")) }
	}
	all := func(opts ...rlock.Option) func(s *site) func(context.Context) {
		return func(s *site) func(context.Context) {
			return func(ctx context.Context) { s.kept(s.locker.AcquireAll(ctx, []string{"a", "b"}, opts...)) }
		}
	}
	each := func(s *site) func(context.Context) {
		return func(ctx context.Context) {
			results, _ := s.locker.TryAcquireEach(ctx, siteKeys)
			for _, r := range results {
				s.kept(r.Lock, r.Err)
			}
		}
	}
	doIt := func(s *site) func(context.Context) {
		return func(ctx context.Context) { _ = s.locker.Do(ctx, "a", work) }
	}
	refuse := func(s *site) { s.f.RefuseAll() }
	with := func(also func(s *site),
		f func(ctx context.Context, s *site, lock *rlock.Lock)) func(s *site) func(context.Context) {
		return func(s *site) func(context.Context) {
			lock := s.have("a")
			if also != nil {
				also(s)
			}
			return func(ctx context.Context) { f(ctx, s, lock) }
		}
	}
	del := func(s *site) { require.NoError(s.t, env.Do(s.t, s.direct, "DEL", "a").Error()) }
	extend := func(ctx context.Context, _ *site, lock *rlock.Lock) { _ = lock.Extend(ctx, time.Minute) }
	release := func(ctx context.Context, _ *site, lock *rlock.Lock) { _ = lock.Release(ctx) }
	three := func(f func(ctx context.Context, s *site,
		locks []*rlock.Lock)) func(s *site) func(context.Context) {
		return func(s *site) func(context.Context) {
			locks := []*rlock.Lock{s.have("a"), s.have("b"), s.have("c")}
			return func(ctx context.Context) { f(ctx, s, locks) }
		}
	}
	for name, test := range map[string]call{
		"Acquire, free": {[]rlock.EventKind{acquired}, acquire()},
		"Acquire, free, extended": {[]rlock.EventKind{acquired},
			acquire(rlock.WithAutoExtend(true), rlock.WithTTL(time.Second))},
		"Acquire, free, never expires": {[]rlock.EventKind{acquired},
			acquire(rlock.WithTTL(rlock.NoExpiry))},
		"Acquire, free, with a token": {[]rlock.EventKind{acquired},
			acquire(rlock.WithToken("mine"), rlock.WithTTL(rlock.NoExpiry))},
		"Acquire, behind a holder here": {[]rlock.EventKind{contended, acquired}, after(here, acquire())},
		"Acquire, behind one here, no expiry": {[]rlock.EventKind{contended, acquired},
			after(here, acquire(rlock.WithTTL(rlock.NoExpiry)))},
		"Acquire, gives up behind a holder here": {[]rlock.EventKind{contended, acquireFailed},
			after(heldHere, acquire(fewTries()))},
		"Acquire, behind a holder elsewhere": {[]rlock.EventKind{contended, acquired},
			after(soonFree, acquire())},
		"Acquire, gives up behind one elsewhere": {[]rlock.EventKind{contended, acquireFailed},
			after(heldElsewhere, acquire(fewTries()))},
		"TryAcquire, free":             {[]rlock.EventKind{acquired}, tryIt},
		"TryAcquire, held here":        {[]rlock.EventKind{contended, acquireFailed}, after(heldHere, tryIt)},
		"TryAcquire, held elsewhere":   {[]rlock.EventKind{contended, acquireFailed}, after(heldElsewhere, tryIt)},
		"AcquireAll, free":             {[]rlock.EventKind{acquired}, all()},
		"AcquireAll, held for a while": {[]rlock.EventKind{contended, acquired}, after(soonFree, all())},
		"AcquireAll, gives up": {[]rlock.EventKind{contended, acquireFailed},
			after(heldElsewhere, all(fewTries()))},
		"TryAcquireEach": {[]rlock.EventKind{contended, acquired, acquireFailed},
			after(func(s *site) { s.foreign("b", 0) }, each)},
		"TryAcquireEach, held here": {[]rlock.EventKind{contended, acquired, acquireFailed},
			after(heldHere, each)},
		"Do":                            {[]rlock.EventKind{acquired, released}, doIt},
		"Do, behind a holder here":      {[]rlock.EventKind{contended, acquired, released}, after(here, doIt)},
		"Do, behind a holder elsewhere": {[]rlock.EventKind{contended, acquired, released}, after(soonFree, doIt)},
		"Extend":                        {[]rlock.EventKind{extended}, with(nil, extend)},
		"Extend, refused":               {[]rlock.EventKind{extendFailed}, with(refuse, extend)},
		"Extend, lost":                  {[]rlock.EventKind{lost}, with(del, extend)},
		"Release":                       {[]rlock.EventKind{released}, with(nil, release)},
		"Release, refused":              {[]rlock.EventKind{releaseFailed}, with(refuse, release)},
		"Release, lost":                 {[]rlock.EventKind{lost}, with(del, release)},
		"Check, lost": {[]rlock.EventKind{lost}, with(del, func(ctx context.Context, _ *site, lock *rlock.Lock) {
			_ = lock.Verify(ctx)
		})},
		"Detach and Attach": {[]rlock.EventKind{detached, attached},
			with(nil, func(ctx context.Context, s *site, lock *rlock.Lock) {
				var handoff rlock.Handoff
				defer func() { // whoever has the Handoff can go on, and Detach gives it again
					if handoff == (rlock.Handoff{}) {
						handoff = env.Detach(s.t, lock)
					}
					again, err := s.plain.Attach(context.Background(), handoff)
					require.NoError(s.t, err)
					require.NoError(s.t, again.Release(context.Background()))
				}()
				handoff, _ = lock.Detach()
				s.kept(s.locker.Attach(ctx, handoff))
			})},
		"ExtendEach": {[]rlock.EventKind{extended}, three(func(ctx context.Context, s *site, locks []*rlock.Lock) {
			s.locker.ExtendEach(ctx, locks, time.Minute)
		})},
		"ReleaseEach": {[]rlock.EventKind{released}, three(func(ctx context.Context, s *site, locks []*rlock.Lock) {
			s.handle = nil
			s.locker.ReleaseEach(ctx, locks)
		})},
		"Close": {[]rlock.EventKind{closed},
			three(func(_ context.Context, s *site, _ []*rlock.Lock) { s.locker.Close() })},
	} {
		for _, kind := range test.kinds {
			for ending, end := range endings {
				t.Run(fmt.Sprintf("%s/%v/%s", name, kind, ending), func(t *testing.T) {
					t.Parallel()
					b := &bomb{kind: kind, end: end}
					f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithObserver(b),
						rlock.WithTTL(5*time.Minute))
					s := &site{t: t, f: f, locker: locker, plain: env.NewLocker(t, direct), direct: direct}
					run := test.prepare(s)
					b.armed.Store(true)
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					returned := survive(func() { run(ctx) })
					f.When(nil)
					require.True(t, b.fired.Load(), "the event came")
					require.False(t, returned, "the caller's goroutine calls the observer")
					s.clear()
				})
			}
		}
	}
}

// A retry policy that panics, or ends its goroutine, leaves the line go on, with others
// before it and behind it.
func TestRetryFuncEndsACall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, s *site, policy rlock.Option){
		"behind a holder here": func(ctx context.Context, s *site, policy rlock.Option) {
			s.kept(s.locker.Acquire(ctx, "a", policy))
		},
		"behind a holder elsewhere": func(ctx context.Context, s *site, policy rlock.Option) {
			s.kept(s.locker.Acquire(ctx, "b", policy))
		},
		"a set": func(ctx context.Context, s *site, policy rlock.Option) {
			s.kept(s.locker.AcquireAll(ctx, []string{"c", "b"}, policy))
		},
		"Do": func(ctx context.Context, s *site, policy rlock.Option) {
			_ = s.locker.Do(ctx, "a", func(context.Context, *rlock.Lock) error { return nil }, policy)
		},
		"no answer": func(ctx context.Context, s *site, policy rlock.Option) {
			s.f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				run()
				return env.NoReply()
			})
			defer s.f.When(nil)
			s.kept(s.locker.Acquire(ctx, "c", policy))
		},
	} {
		for ending, end := range endings {
			for _, call1 := range []int{1, 3} { // of the policy
				t.Run(fmt.Sprintf("%s/%s/%d", name, ending, call1), func(t *testing.T) {
					t.Parallel()
					f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(5*time.Minute))
					s := &site{t: t, f: f, locker: locker, plain: env.NewLocker(t, direct), direct: direct}
					holder := s.have("a")
					s.foreign("b", 0)
					calls := 0
					policy := rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
						if calls++; calls == call1 {
							end()
						}
						return 5 * time.Millisecond, true
					}))
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					require.False(t, survive(func() { call(ctx, s, policy) }))
					behind := make(chan error, 1)
					go func() {
						lock, err := locker.Acquire(ctx, "a", rlock.WithTTL(rlock.NoExpiry))
						if err == nil {
							err = lock.Release(ctx)
						}
						behind <- err
					}()
					env.Soon(t, func() bool { return locker.Stats().Waiting == 1 }, "one waits")
					require.NoError(t, holder.Release(ctx))
					require.NoError(t, env.Receive(t, behind))
					s.clear()
				})
			}
		}
	}
}

// What Do runs may panic too, and the lock passes to the next.
func TestFunctionOfDoEnds(t *testing.T) {
	t.Parallel()
	for ending, end := range endings {
		for name, keys := range map[string][]string{"Do": {"a"}, "DoAll": {"a", "b"}} {
			t.Run(name+"/"+ending, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
				s := &site{t: t, f: f, locker: locker, plain: env.NewLocker(t, direct), direct: direct}
				require.False(t, survive(func() {
					_ = locker.DoAll(t.Context(), keys, func(context.Context, *rlock.Lock) error {
						end()
						return nil
					})
				}))
				s.clear()
			})
		}
	}
}

// brokenContext has a method that panics, as one that wraps a nil context does.
type brokenContext struct {
	context.Context
	method string
}

func (c brokenContext) use(method string) {
	if c.method == method {
		panic("context")
	}
}

func (c brokenContext) Deadline() (time.Time, bool) { c.use("Deadline"); return c.Context.Deadline() }

func (c brokenContext) Done() <-chan struct{} { c.use("Done"); return c.Context.Done() }

func (c brokenContext) Err() error { c.use("Err"); return c.Context.Err() }

func (c brokenContext) Value(key any) any { c.use("Value"); return c.Context.Value(key) }

// latelyBroken is a context whose methods panic from some time on.
type latelyBroken struct {
	context.Context
	broken atomic.Bool
}

func (c *latelyBroken) Done() <-chan struct{} {
	if c.broken.Load() {
		panic("context")
	}
	return c.Context.Done()
}

func (c *latelyBroken) Value(key any) any {
	if c.broken.Load() {
		panic("context")
	}
	return c.Context.Value(key)
}

// A Release that panics keeps others out as long as one that does not.
func TestReleaseThatPanicsKeepsOthersOut(t *testing.T) {
	t.Parallel()
	const minHold = 4 * time.Second
	_, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	ctx := &latelyBroken{Context: t.Context()}
	began := time.Now()
	require.PanicsWithValue(t, "context", func() {
		_ = locker.Do(ctx, "job", func(context.Context, *rlock.Lock) error {
			ctx.broken.Store(true)
			return nil
		}, rlock.WithTTL(time.Hour), rlock.WithMinHold(minHold))
	})
	for {
		held := env.Get(t, direct, "job") != ""
		if time.Since(began) >= minHold-time.Second { // the answer may be of a later moment
			break
		}
		require.True(t, held)
		time.Sleep(20 * time.Millisecond)
	}
	env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "it is free then")
}

// A context whose methods panic leaves nothing behind, and neither does a client whose hook
// panics, whichever command it is about, before the server has run it or after.
func TestClientAndContextPanic(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, s *site){
		"Acquire": func(ctx context.Context,
			s *site) {
			s.kept(s.locker.Acquire(ctx, "a", rlock.WithTTL(rlock.NoExpiry)))
		},
		"AcquireAll": func(ctx context.Context, s *site) { s.kept(s.locker.AcquireAll(ctx, siteKeys)) },
		"TryAcquire": func(ctx context.Context, s *site) { s.kept(s.locker.TryAcquire(ctx, "a")) },
		"TryAcquireEach": func(ctx context.Context, s *site) {
			results, _ := s.locker.TryAcquireEach(ctx, siteKeys)
			for _, r := range results {
				s.kept(r.Lock, r.Err)
			}
		},
		"Do": func(ctx context.Context, s *site) {
			_ = s.locker.Do(ctx, "a", func(context.Context, *rlock.Lock) error { return nil })
		},
		"behind a holder": func(ctx context.Context, s *site) {
			s.behind("a")
			s.kept(s.locker.Acquire(ctx, "a", rlock.WithTTL(rlock.NoExpiry)))
		},
		"behind a holder elsewhere": func(ctx context.Context, s *site) {
			s.foreign("a", 50*time.Millisecond)
			s.kept(s.locker.Acquire(ctx, "a", rlock.WithTTL(rlock.NoExpiry)))
		},
		"Release": func(ctx context.Context, s *site) { _ = s.have("a").Release(ctx) },
		"Release to the next": func(ctx context.Context, s *site) {
			first := s.have("a")
			next := make(chan *rlock.Lock, 1)
			go func() {
				lock, _ := s.locker.Acquire(context.Background(), "a", rlock.WithTTL(time.Hour))
				next <- lock
			}()
			env.Soon(s.t, func() bool { return s.locker.Stats().Waiting == 1 }, "one waits")
			defer func() {
				if _, broken := ctx.(brokenContext); broken { // then Release has not begun
					_ = first.Release(context.Background())
				}
				s.kept(env.Receive(s.t, next), nil)
			}()
			_ = first.Release(ctx)
		},
		"ReleaseEach": func(ctx context.Context, s *site) {
			s.locker.ReleaseEach(ctx, []*rlock.Lock{s.have("a"), s.have("b")})
		},
		"Extend": func(ctx context.Context, s *site) { _ = s.have("a").Extend(ctx, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(5*time.Minute))
			at := func(ctx context.Context) bool {
				s := &site{t: t, f: f, locker: locker, plain: env.NewLocker(t, direct), direct: direct}
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				returned := survive(func() { call(ctx, s) })
				f.When(nil)
				s.clear()
				return returned
			}
			for _, method := range []string{"Deadline", "Done", "Err", "Value"} {
				ended := survive(func() {
					s := &site{t: t, f: f, locker: locker, plain: env.NewLocker(t, direct), direct: direct}
					defer s.clear()
					call(brokenContext{t.Context(), method}, s)
				})
				require.True(t, !ended || method == "Value", method)
			}
			for nth := int64(1); ; nth++ { // command
				for _, late := range []bool{false, true} {
					var count atomic.Int64
					f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
						if !surviving() || count.Add(1) != nth {
							return run()
						}
						if late {
							run()
						}
						panic("hook")
					})
					returned := at(t.Context())
					if returned && count.Load() < nth {
						require.Greater(t, nth, int64(1))
						return
					}
				}
			}
		})
	}
}

// A hook that panics may leave the server with the longer lease of an Extend that shortens. When
// the shorter one is over, the key is freed.
func TestShorteningThatPanics(t *testing.T) {
	t.Parallel()
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(5*time.Minute))
	for name, extend := range map[string]func(lock *rlock.Lock){
		"Extend": func(lock *rlock.Lock) { _ = lock.Extend(t.Context(), 300*time.Millisecond) },
		"ExtendEach": func(lock *rlock.Lock) {
			locker.ExtendEach(t.Context(), []*rlock.Lock{lock},
				300*time.Millisecond)
		},
	} {
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		f.When(env.Once(gen.ExtendSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult { panic("hook") }))
		require.False(t, survive(func() { extend(lock) }), name)
		require.ErrorIs(t, lock.Extend(t.Context(), -1), rlock.ErrInvalid,
			"nothing waits for the call that has panicked")
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, name)
		require.ErrorIs(t, lock.Err(), rlock.ErrExpired, name)
	}
}
