package backends

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmem"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// faulty is a backend that counts calls, and fails as before and after say.
type faulty struct {
	*rlockmem.Backend
	calls         sync.Map // by the name of the call: *atomic.Int64
	before, after atomic.Pointer[func(call string) error]
}

func newFaulty() *faulty { return &faulty{Backend: rlockmem.New()} }

func (f *faulty) count(call string) int64 {
	n, _ := f.calls.LoadOrStore(call, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

func (f *faulty) all() int64 {
	return f.count("acquire") + f.count("fence") + f.count("extend") + f.count("release") + f.count("holder")
}

// fail has calls fail before they do anything, or after they have.
func (f *faulty) fail(when *atomic.Pointer[func(string) error], how func(call string) error) {
	when.Store(&how)
}

func (f *faulty) heal() {
	f.before.Store(nil)
	f.after.Store(nil)
}

func (f *faulty) do(call string, done func() error) error {
	n, _ := f.calls.LoadOrStore(call, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if fails := f.before.Load(); fails != nil {
		if err := (*fails)(call); err != nil {
			return err
		}
	}
	err := done()
	if fails := f.after.Load(); fails != nil {
		if failed := (*fails)(call); failed != nil {
			return failed
		}
	}
	return err
}

func (f *faulty) Acquire(
	ctx context.Context, key, token string, ttl time.Duration,
) (acquired bool, left time.Duration, err error) {
	err = f.do("acquire", func() (err error) {
		acquired, left,
			err = f.Backend.Acquire(ctx, key, token, ttl)
		return err
	})
	return acquired, left, err
}

func (f *faulty) Fence(ctx context.Context, key string) (fence uint64, err error) {
	err = f.do("fence", func() (err error) { fence, err = f.Backend.Fence(ctx, key); return err })
	return fence, err
}

func (f *faulty) Extend(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error) {
	err = f.do("extend", func() (err error) { held, err = f.Backend.Extend(ctx, key, token, ttl); return err })
	return held, err
}

func (f *faulty) Release(ctx context.Context, key, token string) (released bool, err error) {
	err = f.do("release", func() (err error) { released, err = f.Backend.Release(ctx, key, token); return err })
	return released, err
}

func (f *faulty) Holder(ctx context.Context, key string) (token string, left time.Duration, err error) {
	err = f.do("holder", func() (err error) { token, left, err = f.Backend.Holder(ctx, key); return err })
	return token, left, err
}

// always returns an error for the calls of that name.
func always(name string, err error) func(string) error {
	return func(call string) error {
		if call == name {
			return err
		}
		return nil
	}
}

// once is always for the first of them.
func once(name string, err error) func(string) error {
	var failed atomic.Bool
	return func(call string) error {
		if call == name && failed.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

var errBroken = errors.New("the disk is on fire")

func isFree(t *testing.T, f *faulty, key string) bool {
	token, _, err := f.Backend.Holder(t.Context(), key)
	require.NoError(t, err)
	return token == ""
}

// What needs Redis is refused by its name, before anything is sent. Each name that the code refuses has a case
// here, and docs/BACKENDS.md lists it.
func TestWhatNeedsRedis(t *testing.T) {
	t.Parallel()
	f := newFaulty()
	l := Open(t, f)
	held := env.MustLock(t)(l.Acquire(t.Context(), "held"))
	before := f.all()
	nothing := func(context.Context, *rlock.Lock) error { return nil }
	open := func(o rlock.LockerOption) error {
		_, err := rlock.NewWithBackend(f, o)
		return err
	}
	calls := map[string]func(ctx context.Context) error{
		"shared lock": func(ctx context.Context) error { return env.ErrorOf(l.AcquireShared(ctx, "k")) },
		"shared lock, permits": func(ctx context.Context) error {
			return env.ErrorOf(l.TryAcquirePermits(ctx, "k", 1, 2))
		},
		"shared lock, do": func(ctx context.Context) error { return l.DoShared(ctx, "k", nothing) },
		"Detach": func(context.Context) error {
			_, err := held.Detach()
			return err
		},
		"Attach": func(ctx context.Context) error { return env.ErrorOf(l.Attach(ctx, rlock.Handoff{})) },
		"Probe": func(ctx context.Context) error {
			_, err := l.Probe(ctx)
			return err
		},
		"WithMinHold": func(ctx context.Context) error {
			return env.ErrorOf(l.Acquire(ctx, "k", rlock.WithMinHold(time.Second)))
		},
		"WithMinHold, of all": func(context.Context) error { return open(rlock.WithMinHold(time.Second)) },
		"WithQueue":           func(context.Context) error { return open(rlock.WithQueue(true)) },
		"WithBarging":         func(context.Context) error { return open(rlock.WithBarging(time.Millisecond)) },
		"WithInvalidations": func(context.Context) error {
			return open(
				rlock.WithInvalidations(rlock.NewInvalidations()))
		},
		"WithToken, of many keys": func(ctx context.Context) error {
			return env.ErrorOf(l.AcquireAll(ctx, []string{"a", "b"}, rlock.WithToken("t")))
		},
	}
	tested := map[string]bool{}
	for name := range calls {
		refused, _, _ := strings.Cut(name, ",")
		tested[refused] = true
	}
	inCode := refusedInCode(t)
	require.Equal(t, inCode, slices.Sorted(maps.Keys(tested)), "the code refuses these, and these are cases here")
	require.Equal(t, inCode, refusedOnPage(t), "the code refuses these, and docs/BACKENDS.md lists these")

	calls["TTL"] = func(ctx context.Context) error { return held.Extend(ctx, time.Second) }
	calls["backend"] = func(context.Context) error { return env.ErrorOf(rlock.NewWithBackend(nil)) }
	for name, call := range calls {
		err := call(t.Context())
		require.ErrorIs(t, err, rlock.ErrInvalid, name)
		var argument *rlock.ArgumentError
		require.ErrorAs(t, err, &argument, name)
		require.Contains(t, name, argument.Argument)
	}
	require.Equal(t, before, f.all(), "nothing is sent")
	require.NoError(t, held.Err())
	require.Nil(t, l.Client())
	require.False(t, l.Stats().Polling, "nothing is wrong")
}

// refusedInCode returns the names that package rlock gives to onRedis and needsRedis.
func refusedInCode(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../rlock/*.go")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if f, is := n.(*ast.FuncDecl); is && f.Name.Name == "onRedis" {
				return false // it passes its own argument on
			}
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			if name == "onRedis" || name == "needsRedis" {
				text, is := call.Args[0].(*ast.BasicLit)
				require.True(t, is, "%s calls %s without a literal", path, name)
				refused, err := strconv.Unquote(text.Value)
				require.NoError(t, err)
				found[refused] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

var quotedName = regexp.MustCompile("`(\\w+)(\\(true\\))?`")

// refusedOnPage returns what docs/BACKENDS.md lists as refused, by the names of the code.
func refusedOnPage(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/BACKENDS.md")
	require.NoError(t, err)
	_, list, is := strings.Cut(string(page), "(`TestWhatNeedsRedis`):")
	require.True(t, is)
	list, _, _ = strings.Cut(list, "\n- ")
	found := map[string]bool{}
	for _, name := range quotedName.FindAllStringSubmatch(list, -1) {
		found[name[1]] = true
	}
	if strings.Contains(list, "readers, permits") {
		found["shared lock"] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// Leases of the memory have the clock of the bubble that the test is in.
func TestMemoryInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := rlockmem.New()
		one, other := Open(t, b), Open(t, b)
		extended := env.MustLock(t)(one.Acquire(t.Context(), "extended", rlock.WithAutoExtend(true)))
		left := env.MustLock(t)(one.Acquire(t.Context(), "left", rlock.WithTTL(time.Hour)))
		start := time.Now()
		next := env.MustLock(t)(other.Acquire(t.Context(), "left"))
		require.InDelta(t, time.Hour, time.Since(start), float64(time.Second))
		require.ErrorIs(t, left.Err(), rlock.ErrNotHeld)
		require.Greater(t, next.Fence(), left.Fence())
		time.Sleep(10 * time.Hour)
		require.NoError(t, extended.Err())
		require.NoError(t, extended.Release(t.Context()))
		require.NoError(t, env.MustLock(t)(other.Acquire(t.Context(), "extended")).Release(t.Context()))
	})
}

// Who waits is told of the release and the loss, and asks nothing meanwhile.
func TestNotifications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		one, other := Open(t, f), Open(t, f)
		held := env.MustLock(t)(one.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
		got := make(chan *rlock.Lock)
		for range 100 {
			go func() { got <- env.MustLock(t)(other.Acquire(t.Context(), "k")) }()
		}
		synctest.Wait()
		before := f.all()
		time.Sleep(50 * time.Minute)
		require.LessOrEqual(t, f.all()-before, int64(2), "they ask all the time")
		now := time.Now()
		require.NoError(t, held.Release(t.Context()))
		for range 100 {
			require.NoError(t, (<-got).Release(t.Context()))
		}
		require.Less(t, time.Since(now), 10*time.Second)

		lost := env.MustLock(t)(one.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
		ctx := lost.Context()
		time.Sleep(time.Second) // it is watched by now
		now = time.Now()
		f.Delete("k")
		<-ctx.Done()
		require.ErrorIs(t, lost.Err(), rlock.ErrLost)
		require.Less(t, time.Since(now), time.Second)
	})
}

// A lock that nobody else wants costs a call for itself, one for its fence, and one to release it.
func TestCallsOfALock(t *testing.T) {
	t.Parallel()
	f := newFaulty()
	l := Open(t, f)
	require.NoError(t, env.MustLock(t)(l.Acquire(t.Context(), "k")).Release(t.Context()))
	require.EqualValues(t, 3, f.all())
	require.NoError(t, env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithFence(false))).Release(t.Context()))
	require.EqualValues(t, 5, f.all())
	require.NoError(t, env.MustLock(t)(l.AcquireAll(t.Context(), []string{"a", "b", "c"})).Release(t.Context()))
	require.EqualValues(t, 5+9, f.all())
}

// A call whose answer is lost is made again, and does no harm.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"acquire", "fence", "extend", "release", "holder"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				l := Open(t, f)
				f.fail(&f.after, once(call, errBroken))
				lock := env.MustLock(t)(l.Acquire(t.Context(), "k"))
				require.NoError(t, lock.Extend(t.Context(), time.Hour))
				require.NoError(t, lock.Verify(t.Context()))
				require.NoError(t, lock.Release(t.Context()),
					"if it is made again it finds nothing, as the first has freed it")
				require.True(t, isFree(t, f, "k"))
				require.EqualValues(t, 2, f.count(call), "it is made again")
			})
		})
	}
}

// A backend that does not answer is one that has no answer: what it may have done is undone once it is back.
func TestBackendInAnOutage(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"acquire", "fence"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				l := Open(t, f)
				f.fail(&f.after, always(call, errBroken))
				for _, acquire := range []func(context.Context, string, ...rlock.Option) (*rlock.Lock, error){l.Acquire,
					l.TryAcquire} {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					_, err := acquire(ctx, "k", rlock.WithTTL(time.Hour))
					cancel()
					require.ErrorIs(t, err, rlock.ErrNoAnswer)
					require.ErrorIs(t, err, errBroken)
					time.Sleep(time.Minute) // what it took is freed
				}
				_, err := l.AcquireAll(t.Context(), []string{"k", "other"}, rlock.WithTTL(time.Hour),
					rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxTime(time.Second)))
				require.ErrorIs(t, err, rlock.ErrNoAnswer)
				f.heal()
				time.Sleep(time.Minute)
				require.True(t, isFree(t, f, "k"))
				require.True(t, isFree(t, f, "other"))
			})
		})
	}
}

// What a backend refuses is not tried again, and its error is that of the call.
func TestRefusedByTheBackend(t *testing.T) {
	t.Parallel()
	for call, calls := range map[string]int64{"acquire": 1, "fence": 2, "extend": 3, "holder": 3, "release": 3} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				l := Open(t, f)
				f.fail(&f.before, always(call, rlock.Refused(errBroken)))
				lock, err := l.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour))
				switch call {
				case "extend":
					err = lock.Extend(t.Context(), 2*time.Hour)
				case "holder":
					err = lock.Verify(t.Context())
				case "release":
					err = lock.Release(t.Context())
				}
				require.ErrorIs(t, err, errBroken)
				require.NotErrorIs(t, err, rlock.ErrNoAnswer)
				require.NotErrorIs(t, err, rlock.ErrGaveUp)
				require.Contains(t, err.Error(), `"k": `)
				require.Contains(t, err.Error(), errBroken.Error())
				// what has the key is asked for again, or freed in the background
				if call != "fence" && call != "release" {
					require.Equal(t, calls, f.all())
				}
				f.heal()
				if lock != nil {
					_ = lock.Release(t.Context())
				}
				time.Sleep(time.Minute)
				require.True(t, isFree(t, f, "k"))
			})
		})
	}
}

// A call of a backend that panics leaves nothing locked.
func TestPanicOfABackend(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"acquire", "fence", "release"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				l := Open(t, f)
				work := func() {
					lock, err := l.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour))
					if err == nil {
						_ = lock.Release(t.Context())
					}
				}
				var thrown atomic.Bool // once: what frees the key in the background is no call of the user's
				f.fail(&f.after, func(c string) error {
					if c == call && thrown.CompareAndSwap(false, true) {
						panic("thrown")
					}
					return nil
				})
				require.PanicsWithValue(t, "thrown", work)
				f.heal()
				time.Sleep(time.Minute)
				require.True(t, isFree(t, f, "k"))
				work()
				require.True(t, isFree(t, f, "k"))
			})
		})
	}
}

// A holder that is given up frees its keys, and another goes on.
func TestLeadAndShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := four{rlockmem.New()} // of four methods: nobody is told
		one, other := Open(t, b), Open(t, b)
		leads := make(chan string, 2)
		lead := func(l *rlock.Locker, name string) {
			_ = l.Lead(t.Context(), "leader", func(ctx context.Context, _ *rlock.Lock) error {
				leads <- name
				<-ctx.Done()
				return nil
			})
		}
		go lead(one, "one")
		require.Equal(t, "one", <-leads)
		go lead(other, "other")
		env.MustLock(t)(one.Acquire(t.Context(), "k"))
		synctest.Wait()
		now := time.Now()
		require.NoError(t, one.Shutdown(t.Context()))
		require.Equal(t, "other", <-leads)
		require.Less(t, time.Since(now), time.Second, "it polls four times a second")
		require.NoError(t, env.MustLock(t)(other.TryAcquire(t.Context(), "k")).Release(t.Context()))
		require.NoError(t, other.Shutdown(t.Context()))
	})
}

// Observers are told what they are told of Redis.
func TestEventsOfABackend(t *testing.T) {
	t.Parallel()
	var kinds []rlock.EventKind
	observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) { kinds = append(kinds, e.Kind) })
	l := Open(t, rlockmem.New(), rlock.WithObserver(observer), rlock.WithPrefix("app:"))
	require.NoError(t, l.Do(t.Context(), "k", func(_ context.Context, lock *rlock.Lock) error {
		require.Equal(t, "app:k", lock.Key())
		_, err := l.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, rlock.ErrHeld)
		return nil
	}))
	require.Subset(t, kinds, []rlock.EventKind{rlock.EventAcquired, rlock.EventAcquireFailed,
		rlock.EventReleased})
	require.EqualValues(t, 1, l.Stats().Acquired)
}

// One key whose call is silent costs no other lock its lease, and no call outlasts the Locker.
func TestSilentKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &hanging{Backend: rlockmem.New()}
		l := Open(t, b)
		bad := env.MustLock(t)(l.Acquire(t.Context(), "bad", rlock.WithAutoExtend(true)))
		good := env.MustLock(t)(l.Acquire(t.Context(), "good", rlock.WithAutoExtend(true)))
		b.hangs.Store(true)
		time.Sleep(time.Minute)
		require.ErrorIs(t, bad.Err(), rlock.ErrExpired)
		require.NoError(t, good.Err())
		lost, err := l.TryAcquire(t.Context(), "bad") // without an end of its own
		require.Nil(t, lost)
		require.ErrorIs(t, err, rlock.ErrNoAnswer)
		got := make(chan error)
		go func() { got <- env.ErrorOf(l.Acquire(context.WithoutCancel(t.Context()), "bad")) }()
		synctest.Wait()
		l.Close()
		require.ErrorIs(t, <-got, rlock.ErrClosed)
	})
}

// hanging is a backend whose calls about one key end with their context.
type hanging struct {
	*rlockmem.Backend
	hangs atomic.Bool
}

func (h *hanging) hang(ctx context.Context, key string) error {
	if key == "bad" && h.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (h *hanging) Acquire(ctx context.Context, key, token string, ttl time.Duration) (bool, time.Duration,
	error) {
	if err := h.hang(ctx, key); err != nil {
		return false, 0, err
	}
	return h.Backend.Acquire(ctx, key, token, ttl)
}

func (h *hanging) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	if err := h.hang(ctx, key); err != nil {
		return false, err
	}
	return h.Backend.Extend(ctx, key, token, ttl)
}

func (h *hanging) Release(ctx context.Context, key, token string) (bool, error) {
	if err := h.hang(ctx, key); err != nil {
		return false, err
	}
	return h.Backend.Release(ctx, key, token)
}

func (h *hanging) Holder(ctx context.Context, key string) (string, time.Duration, error) {
	if err := h.hang(ctx, key); err != nil {
		return "", 0, err
	}
	return h.Backend.Holder(ctx, key)
}

// A backend that hears of changes only later, and misses a release, keeps nobody waiting.
func TestLateNotifier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := late{rlockmem.New()}
		l, other := Open(t, b), Open(t, b)
		held := env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
		got := make(chan *rlock.Lock)
		go func() { got <- env.MustLock(t)(other.Acquire(t.Context(), "k")) }()
		time.Sleep(time.Second)
		require.NoError(t, held.Release(t.Context()))
		start := time.Now()
		require.NoError(t, (<-got).Release(t.Context()))
		require.Less(t, time.Since(start), time.Second)
	})
}

// late hears nothing.
type late struct{ *rlockmem.Backend }

func (late) Notify(context.Context, func(string)) {}

// What a backend that is built on Redis hears from it is an error like any other.
func TestBackendOnRedisThatRefuses(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	readonly := env.Do(t, server.Client(t), "EVAL", "return redis.error_reply('READONLY You can not write')",
		"0").Error()
	require.Error(t, readonly)
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		l := Open(t, f)
		f.fail(&f.before, always("acquire", readonly))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "k")
		require.ErrorIs(t, err, rlock.ErrNoAnswer)
		require.ErrorContains(t, err, "READONLY")
		require.Greater(t, f.count("acquire"), int64(5), "it is tried again all the time")
		f.heal()
		require.NoError(t, env.MustLock(t)(l.Acquire(t.Context(), "k")).Release(t.Context()))
	})
}
