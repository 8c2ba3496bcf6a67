package observe

import (
	"context"
	"runtime"
	"testing"

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
				locker := env.NewLocker(t, client, rlock.WithObserver(rlock.Observers(before, nil, rlock.ObserverFunc(nil),
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
				if why := <-ended; name == "a panic" {
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
