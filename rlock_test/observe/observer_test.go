package observe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// diary is an observer that remembers everything.
type diary struct {
	mu     sync.Mutex
	events []rlock.Event
}

func (d *diary) Observe(_ context.Context, e rlock.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// of returns the events of a key so far.
func (d *diary) of(key string) []rlock.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	var events []rlock.Event
	for _, e := range d.events {
		if e.Keys[0] == key {
			events = append(events, e)
		}
	}
	return events
}

// kinds returns the events of a key as words.
func (d *diary) kinds(key string) []string {
	var words []string
	for _, e := range d.of(key) {
		words = append(words, e.Kind.String())
	}
	return words
}

// last waits for the event that ends a lock and returns it.
func (d *diary) last(t *testing.T, key string, kind rlock.EventKind) rlock.Event {
	t.Helper()
	var last rlock.Event
	env.Soon(t, func() bool {
		events := d.of(key)
		if len(events) > 0 {
			last = events[len(events)-1]
		}
		return last.Kind == kind
	}, fmt.Sprintf("%s: %v", key, kind))
	return last
}

// unfinished returns how many locks have begun and not ended.
func unfinished(kinds []string) int {
	n := 0
	for _, kind := range kinds {
		switch kind {
		case "acquired", "attached":
			n++
		case "released", "release_failed", "lost", "expired", "detached", "closed":
			n--
		}
	}
	return n
}

// Each way for a lock to live and end, and its events, in order.
func TestEvents(t *testing.T) {
	t.Parallel()
	type scene struct {
		f      *env.Faulty
		locker *rlock.Locker
		direct rueidis.Client
		diary  *diary
	}
	acquire := func(t *testing.T, s scene, opts ...rlock.Option) *rlock.Lock {
		t.Helper()
		lock, err := s.locker.Acquire(t.Context(), "job", opts...)
		require.NoError(t, err)
		return lock
	}
	for name, test := range map[string]struct {
		live func(t *testing.T, s scene)
		want []string
		err  error // of the last event
	}{
		"released": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			require.NoError(t, lock.Extend(t.Context(), time.Minute))
			require.NoError(t, lock.Release(t.Context()))
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
		}, []string{"acquired", "extended", "released"}, nil},
		"do": {func(t *testing.T, s scene) {
			require.NoError(t, s.locker.Do(t.Context(), "job",
				func(context.Context, *rlock.Lock) error { return nil }))
		}, []string{"acquired", "released"}, nil},
		"expired with nobody watching": {func(t *testing.T, s scene) {
			acquire(t, s, rlock.WithTTL(time.Second))
			s.diary.last(t, "job", rlock.EventExpired)
		}, []string{"acquired", "expired"}, rlock.ErrExpired},
		"expired, then released": {func(t *testing.T, s scene) {
			lock := acquire(t, s, rlock.WithTTL(time.Second))
			s.diary.last(t, "job", rlock.EventExpired)
			_ = lock.Release(t.Context()) // nil if the key was still there
		}, []string{"acquired", "expired"}, rlock.ErrExpired},
		"lost, found by an extension": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			require.NoError(t, env.Do(t, s.direct, "DEL", "job").Error())
			require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrLost)
			require.Error(t, lock.Release(t.Context()))
		}, []string{"acquired", "lost"}, rlock.ErrLost},
		"lost, found by an automatic extension": {func(t *testing.T, s scene) {
			acquire(t, s, rlock.WithTTL(9*time.Second), rlock.WithAutoExtend(true)) // it is the first that finds it
			require.NoError(t, env.Do(t, s.direct, "SET", "job", "thief").Error())
			s.diary.last(t, "job", rlock.EventLost)
		}, []string{"acquired", "lost"}, rlock.ErrLost},
		"lost, found by a check": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			require.NoError(t, env.Do(t, s.direct, "DEL", "job").Error())
			err := lock.Verify(t.Context())
			require.ErrorIs(t, err, rlock.ErrLost)
		}, []string{"acquired", "lost"}, rlock.ErrLost},
		"lost, found by the release": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			require.NoError(t, env.Do(t, s.direct, "DEL", "job").Error())
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
		}, []string{"acquired", "lost"}, rlock.ErrLost},
		"extension refused": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			s.f.RefuseAll()
			require.ErrorContains(t, lock.Extend(t.Context(), time.Minute), "LOADING")
			s.f.When(nil)
			require.NoError(t, lock.Release(t.Context()))
		}, []string{"acquired", "extend_failed", "released"}, nil},
		"release refused, then done": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			s.f.RefuseAll()
			require.ErrorContains(t, lock.Release(t.Context()), "LOADING")
			s.f.When(nil)
			require.NoError(t, lock.Release(t.Context()))
		}, []string{"acquired", "release_failed"}, &rueidis.RedisError{}},
		"detached and attached": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			again, err := s.locker.Attach(t.Context(), env.Detach(t, lock))
			require.NoError(t, err)
			require.NoError(t, again.Release(t.Context()))
			require.Error(t, lock.Release(t.Context()))
		}, []string{"acquired", "detached", "attached", "released"}, nil},
		"attached and left to its lease": {func(t *testing.T, s scene) {
			lock := acquire(t, s, rlock.WithTTL(2*time.Second))
			_, err := s.locker.Attach(t.Context(), env.Detach(t, lock))
			require.NoError(t, err)
			s.diary.last(t, "job", rlock.EventExpired)
		}, []string{"acquired", "detached", "attached", "expired"}, rlock.ErrExpired},
		"released during an extension that fails": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			s.f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
				s.f.When(nil)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
				return s.f.Refuse("LOADING later")
			})
			require.Error(t, lock.Extend(t.Context(), time.Minute))
		}, []string{"acquired", "released"}, nil},
		"closed": {func(t *testing.T, s scene) {
			lock := acquire(t, s, rlock.WithTTL(rlock.NoExpiry))
			s.locker.Close()
			require.NoError(t, lock.Release(t.Context()))
		}, []string{"acquired", "closed"}, rlock.ErrClosed},
		"held by another": {func(t *testing.T, s scene) {
			require.NoError(t, env.Do(t, s.direct, "SET", "job", "foreign").Error())
			_, err := s.locker.TryAcquire(t.Context(), "job")
			require.ErrorIs(t, err, rlock.ErrHeld)
		}, []string{"contended", "acquire_failed"}, rlock.ErrHeld},
		"gave up": {func(t *testing.T, s scene) {
			require.NoError(t, env.Do(t, s.direct, "SET", "job", "foreign").Error())
			_, err := s.locker.Acquire(t.Context(), "job",
				rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(5)))
			require.ErrorIs(t, err, rlock.ErrGaveUp)
		}, []string{"contended", "acquire_failed"}, rlock.ErrGaveUp},
		"waited": {func(t *testing.T, s scene) {
			require.NoError(t, env.Do(t, s.direct, "SET", "job", "foreign", "PX", "3000").Error())
			require.NoError(t, acquire(t, s).Release(t.Context()))
		}, []string{"contended", "acquired", "released"}, nil},
		"waited in the line": {func(t *testing.T, s scene) {
			acquire(t, s, rlock.WithTTL(3*time.Second))
			require.NoError(t, acquire(t, s).Release(t.Context()))
		}, []string{"acquired", "contended", "expired", "acquired", "released"}, nil},
		"refused by the server": {func(t *testing.T, s scene) {
			require.NoError(t, env.Do(t, s.direct, "LPUSH", "job", "1").Error())
			_, err := s.locker.Acquire(t.Context(), "job")
			require.Error(t, err)
		}, []string{"acquire_failed"}, &rueidis.RedisError{}},
		"already held": {func(t *testing.T, s scene) {
			lock := acquire(t, s)
			_, err := s.locker.Acquire(lock.Context(), "job")
			require.ErrorIs(t, err, rlock.ErrAlreadyHeld)
		}, []string{"acquired", "acquire_failed"}, rlock.ErrAlreadyHeld},
		"answered too late": {func(t *testing.T, s scene) {
			s.f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				time.Sleep(30 * time.Millisecond)
				return answer
			})
			_, err := s.locker.Acquire(t.Context(), "job", rlock.WithTTL(20*time.Millisecond))
			require.ErrorIs(t, err, rlock.ErrExpired)
		}, []string{"acquire_failed"}, rlock.ErrExpired},
		"bad input": {func(t *testing.T, s scene) {
			_, err := s.locker.Acquire(t.Context(), "job", rlock.WithTTL(0))
			require.ErrorIs(t, err, rlock.ErrInvalid)
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &diary{}
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithObserver(d))
			test.live(t, scene{f, locker, direct, d})
			require.Equal(t, test.want, d.kinds("job"))
			if len(test.want) == 0 {
				return
			}
			events := d.of("job")
			last := events[len(events)-1].Err
			if server, is := test.err.(*rueidis.RedisError); is {
				require.ErrorAs(t, last, &server)
			} else {
				require.ErrorIs(t, last, test.err)
			}
			locker.Close()
			require.Zero(t, unfinished(d.kinds("job")), "each lock ends once")
		})
	}
}

// What an event says.
func TestEventFacts(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		type traceKey struct{}
		var d diary
		locker := env.NewLocker(t, client, rlock.WithPrefix("app:"),
			rlock.WithObserver(rlock.ObserverFunc(func(ctx context.Context, e rlock.Event) {
				if ctx.Value(traceKey{}) != "trace" {
					t.Error("the context has not the values of the acquisition's")
				}
				d.Observe(ctx, e)
			})))
		ctx := context.WithValue(t.Context(), traceKey{}, "trace")
		require.NoError(t, env.Do(t, client, "SET", "app:b", "foreign", "PX", "4000").Error())
		set, err := locker.AcquireAll(ctx, []string{"a", "b"})
		require.NoError(t, err)
		behind := make(chan error, 1)
		single, err := locker.Acquire(ctx, "c", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		token := single.Token()
		go func() {
			lock, err := locker.Acquire(ctx, "c")
			if err == nil {
				err = lock.Release(ctx)
			}
			behind <- err
		}()
		env.Soon(t, func() bool { return len(d.of("app:c")) == 2 }, "one stands behind")
		require.NoError(t, single.Release(ctx))
		require.NoError(t, env.Receive(t, behind))
		require.NoError(t, set.Release(ctx))

		events := d.of("app:a")
		require.Len(t, events, 3)
		contended, acquired, released := events[0], events[1], events[2]
		require.Equal(t, "app:b", contended.Key, "the one in the way")
		require.Equal(t, 1, contended.Attempts)
		require.Positive(t, contended.Remaining)
		require.LessOrEqual(t, contended.Remaining, 4*time.Second)
		require.False(t, contended.Local)
		require.Zero(t, contended.Fence)
		require.Equal(t, []string{"app:a", "app:b"}, acquired.Keys)
		require.Equal(t, "app:a", acquired.Key)
		require.Equal(t, set.Fence(), acquired.Fence)
		require.Equal(t, set.Attempts(), acquired.Attempts)
		require.Greater(t, acquired.Waited, contended.Waited)
		require.Equal(t, []bool{false, true, false},
			[]bool{contended.Contended, acquired.Contended, released.Contended})
		require.Positive(t, acquired.Remaining)
		require.LessOrEqual(t, acquired.Remaining, rlock.DefaultTTL)
		require.Equal(t, set.Fence(), released.Fence)
		require.Positive(t, released.Held)
		require.Zero(t, released.Remaining)

		events = d.of("app:c")
		require.Equal(t, rlock.NoExpiry, events[0].Remaining)
		require.True(t, events[1].Local)
		require.False(t, events[0].Contended)
		require.False(t, events[0].HandedOver)
		require.True(t, slices.ContainsFunc(events,
			func(e rlock.Event) bool { return e.Kind == rlock.EventAcquired && e.HandedOver && e.Contended }))
		for _, e := range d.events {
			text := fmt.Sprintf("%+v", e)
			require.NotContains(t, text, set.Token())
			require.NotContains(t, text, token)
		}
	})
}

// An observer of a call takes the place of its Locker's.
func TestObserverOfACall(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		var whole, one diary
		locker := env.NewLocker(t, client, rlock.WithObserver(&whole))
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithObserver(&one))
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, whole.kinds("job"))
		require.Equal(t, []string{"acquired", "released"}, one.kinds("job"))
		for _, nothing := range []rlock.Observer{nil, rlock.ObserverFunc(nil)} {
			_, err = locker.Acquire(t.Context(), "job", rlock.WithObserver(nothing))
			require.ErrorIs(t, err, rlock.ErrInvalid)
		}
		require.Equal(t, "EventKind(99)", rlock.EventKind(99).String())
	})
}

// However many acquisitions there are at once, each lock has one beginning and one
// end, and the counters agree with the events.
func TestEveryLockEndsOnce(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		var d diary
		locker := env.NewLocker(t, client, rlock.WithObserver(&d))
		require.NoError(t, env.Together(16, func(i int) error {
			for round := range 20 {
				key := fmt.Sprintf("job:%d", (i+round)%3)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+round)*time.Millisecond)
				lock, err := locker.Acquire(ctx, key, rlock.WithTTL(time.Duration(5+20*(round%2))*time.Millisecond))
				cancel()
				if err == nil && round%5 != 0 { // some are left to their lease
					_ = lock.Release(t.Context())
				}
			}
			return nil
		}))
		counted := func() (held, begun map[string]int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			begun, held = map[string]int{}, map[string]int{}
			for _, e := range d.events {
				begun[e.Kind.String()]++
				if e.Fence > 0 {
					held[fmt.Sprint(e.Key, e.Fence)]++
				}
			}
			return held, begun
		}
		env.Soon(t, func() bool {
			_, by := counted()
			return by["acquired"] == by["released"]+by["lost"]+by["expired"]+by["release_failed"]
		}, "every lock ends")
		held, by := counted()
		for lock, events := range held {
			require.Equal(t, 2, events, lock)
		}
		stats := locker.Stats()
		require.Equal(t, uint64(16*20), stats.Acquired+stats.AcquireFailed)
		require.Equal(t, uint64(by["acquired"]), stats.Acquired)
		require.Equal(t, uint64(by["acquire_failed"]), stats.AcquireFailed)
		require.Equal(t, uint64(by["contended"]), stats.Contended)
		require.Equal(t, uint64(by["released"]), stats.Released)
		require.Equal(t, uint64(by["lost"]), stats.Lost)
		require.Equal(t, uint64(by["expired"]), stats.Expired)
		require.Zero(t, stats.Waiting)
		require.Positive(t, stats.Waited)
	})
}
