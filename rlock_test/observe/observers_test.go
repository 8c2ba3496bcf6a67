package observe

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Each of several observers is told of everything, whatever the others do.
func TestObservers(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for name, ends := range map[string]func(){
			"a panic":  func() { panic("mine") },
			"an exit":  runtime.Goexit,
			"a return": func() {},
		} {
			t.Run(name, func(t *testing.T) {
				before, after := new(diary), new(diary)
				locker := env.NewLocker(t, client,
					rlock.WithObserver(rlock.Observers(before, nil, rlock.ObserverFunc(nil),
						rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
							if e.Kind == rlock.EventReleased {
								ends()
							}
						}), after)))
				ended := make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					lock, err := locker.Acquire(t.Context(), "job")
					if err == nil {
						_ = lock.Release(t.Context())
					}
				}()
				if why := env.Receive(t, ended); name == "a panic" {
					require.Equal(t, "mine", why, "it goes on when all are told")
				}
				require.Equal(t, []string{"acquired", "released"}, before.kinds("job"))
				require.Equal(t, []string{"acquired", "released"}, after.kinds("job"))
				require.Empty(t, env.Get(t, client, "job"))
			})
		}
		require.Nil(t, rlock.Observers())
		require.Nil(t, rlock.Observers(nil, rlock.ObserverFunc(nil)))
		_, err := rlock.New(client, rlock.WithObserver(rlock.Observers(nil)))
		require.ErrorIs(t, err, rlock.ErrInvalid)
	})
}

// Several that end without returning keep nothing from the others, also inside of one another, and one that
// is named twice is told twice. What an observer does to the lock is told in its turn.
func TestObserversOfObservers(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		diaries := []*diary{new(diary), new(diary), new(diary)}
		end := func(how func()) rlock.Observer {
			return rlock.ObserverFunc(func(context.Context, rlock.Event) { how() })
		}
		inner := rlock.Observers(end(func() { panic("first") }), diaries[1], end(runtime.Goexit))
		var held *rlock.Lock
		release := rlock.ObserverFunc(func(ctx context.Context, e rlock.Event) {
			if e.Kind == rlock.EventExtended {
				_ = held.Release(ctx)
			}
		})
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job",
			rlock.WithObserver(rlock.Observers(diaries[0], release, diaries[0])))
		require.NoError(t, err)
		held = lock
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.Equal(t, []string{"acquired", "acquired", "extended", "extended", "released", "released"},
			diaries[0].kinds("job"))

		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			_, _ = locker.Acquire(t.Context(), "other",
				rlock.WithObserver(rlock.Observers(inner, end(func() { panic("last") }), diaries[2])))
		}()
		env.Receive(t, ended)
		require.Equal(t, []string{"acquired", "released"}, diaries[1].kinds("other"),
			"a caller who gets no handle holds nothing")
		require.Equal(t, []string{"acquired", "released"}, diaries[2].kinds("other"))
		require.Empty(t, env.Get(t, client, "other"))
	})
}
