package notify_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// seen are the answers of a Look, the last one again and again.
type seen struct {
	answers []notify.Seen
	err     error
	looks   int
}

func (s *seen) look(context.Context, string) (notify.Seen, error) {
	s.looks++
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer, s.err
}

func TestAwait(t *testing.T) {
	t.Parallel()
	var (
		held  = notify.Seen{Held: true, Left: time.Minute}
		known = notify.Seen{Held: true, Left: time.Minute, Cached: true}
		free  = notify.Seen{}
		stale = notify.Seen{Cached: true}
		other = notify.Seen{Held: true, Left: time.Minute, Token: "other"}
		own   = notify.Seen{Held: true, Left: time.Minute, Token: "own"}
	)
	const poll = 5 * time.Millisecond / 2 // or up to twice that
	foreign := func(token string) bool { return token == "other" }
	for name, test := range map[string]struct {
		wait    notify.Wait
		pause   time.Duration // 0: none
		answers []notify.Seen
		err     error
		silent  bool          // the server has told the Listener nothing
		pushes  time.Duration // between them; 0: none
		end     time.Duration // 0: never
		took    time.Duration // or up to 3 ms more
		looks   int
	}{
		"free":              {answers: []notify.Seen{free}, looks: 1},
		"held":              {answers: []notify.Seen{held}, took: time.Minute, looks: 1},
		"held, as is known": {answers: []notify.Seen{known}, took: time.Minute, looks: 1},
		"until end":         {answers: []notify.Seen{held}, end: time.Second, took: time.Second, looks: 1},
		"with a pause": {pause: time.Second / 10, answers: []notify.Seen{held}, took: time.Second / 10,
			looks: 1},
		"the cache is late":     {answers: []notify.Seen{stale}, took: poll, looks: 1},
		"no cache":              {answers: []notify.Seen{held}, err: errors.New("none"), took: poll, looks: 1},
		"nothing was ever told": {answers: []notify.Seen{held}, silent: true, took: notify.LongestPoll, looks: 1},
		"freed": {answers: []notify.Seen{held, free}, pushes: time.Second, took: time.Second,
			looks: 2},
		"extended, then freed": {answers: []notify.Seen{held, held, free}, pushes: time.Second,
			took: 2 * time.Second, looks: 3},
		"its token has the key": {wait: notify.Wait{Token: "own"}, answers: []notify.Seen{own}, looks: 1},
		"passed on, then to it": {wait: notify.Wait{Token: "own"}, answers: []notify.Seen{held, other, own},
			pushes: time.Second, took: 2 * time.Second, looks: 3},
		"not its token": {answers: []notify.Seen{own}, took: time.Minute, looks: 1},
		"another's, changed": {wait: notify.Wait{Foreign: foreign}, answers: []notify.Seen{other, other},
			pushes: time.Second, took: time.Second, looks: 1},
		"passed on, changed": {wait: notify.Wait{Foreign: foreign}, answers: []notify.Seen{own, own, free},
			pushes: time.Second, took: 2 * time.Second, looks: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub, s := notify.NewHub(), seen{answers: test.answers, err: test.err}
				w := test.wait
				w.Listener, w.Look = hub.Listen(), s.look
				w.Listener.SetHeard(!test.silent)
				defer w.Leave()
				pause, end, start := clock.NoExpiry, clock.Never, time.Now()
				if test.pause > 0 {
					pause = test.pause
				}
				if test.end > 0 {
					end = clock.Now().After(test.end)
				}
				if test.pushes > 0 {
					stop := make(chan struct{})
					defer close(stop)
					go func() {
						for {
							select {
							case <-stop:
								return
							case <-time.After(test.pushes):
								hub.Tell("job")
							}
						}
					}()
				}
				require.NoError(t, w.Await(t.Context(), "job", pause, time.Minute, end))
				require.InDelta(t, test.took+3*time.Millisecond/2, time.Since(start), float64(3*time.Millisecond/2))
				require.Equal(t, test.looks, s.looks)
			})
		})
	}
}

// A server that was too slow for one look has not said that it tells of the key: whoever wants to
// pause for an hour looks again, and hears of the change.
func TestAwaitLooksAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err   error
		pause time.Duration
		took  time.Duration
		looks int
	}{
		"late":                {context.DeadlineExceeded, time.Hour, 2 * time.Second, 3},
		"refused":             {errors.New("no"), time.Hour, time.Hour, 1},
		"late, a short pause": {context.DeadlineExceeded, 200 * time.Millisecond, 200 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := notify.NewHub()
				var free atomic.Bool
				looks := 0
				w := notify.Wait{Listener: hub.Listen(), Look: func(context.Context, string) (notify.Seen, error) {
					if looks++; looks == 1 {
						return notify.Seen{}, test.err
					}
					return notify.Seen{Held: !free.Load(), Left: time.Hour}, nil
				}}
				defer w.Leave()
				time.AfterFunc(2*time.Second, func() {
					free.Store(true)
					hub.Tell("job")
				})
				start := time.Now()
				require.NoError(t, w.Await(t.Context(), "job", test.pause, clock.NoExpiry, clock.Never))
				require.Equal(t, test.took, time.Since(start))
				require.Equal(t, test.looks, looks)
			})
		})
	}
}

// A grant that comes while the server is too slow for looks is taken at once, also between two of them.
func TestAwaitIsWokenBetweenLooks(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 2*time.Second + 100*time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				wake := make(chan struct{}, 1)
				w := notify.Wait{Listener: notify.NewHub().Listen(), Wake: wake,
					Look: func(ctx context.Context, _ string) (notify.Seen, error) {
						ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
						defer cancel()
						<-ctx.Done()
						return notify.Seen{}, ctx.Err()
					}}
				defer w.Leave()
				start := time.Now()
				time.AfterFunc(after, func() { wake <- struct{}{} })
				require.NoError(t, w.Await(t.Context(), "job", time.Hour, clock.NoExpiry, clock.Never))
				require.Equal(t, after, time.Since(start))
				synctest.Wait()
				time.Sleep(2 * time.Second) // the look that goes on ends
			})
		})
	}
}

// Without a pause, and where nothing is pushed, the Wait polls more and more slowly, but also
// when the holder's lease or the waiting ends.
func TestAwaitPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w notify.Wait
		took := func(pause, left time.Duration, end clock.Instant) time.Duration {
			start := time.Now()
			require.NoError(t, w.Await(t.Context(), "job", pause, left, end))
			return time.Since(start)
		}
		for _, most := range []time.Duration{5, 10, 20, 40, 80, 160, 250, 250, 250} {
			most *= time.Millisecond
			waited := took(clock.NoExpiry, clock.NoExpiry, clock.Never)
			require.GreaterOrEqual(t, waited, most/2)
			require.LessOrEqual(t, waited, most)
			require.Equal(t, time.Second, took(time.Second, 0, clock.Never),
				"a pause that was asked for is not a poll")
		}
		waited := took(clock.NoExpiry, 20*time.Millisecond, clock.Never)
		require.Greater(t, waited, 20*time.Millisecond)
		require.LessOrEqual(t, waited, 23*time.Millisecond)
		require.Equal(t, 30*time.Millisecond, took(clock.NoExpiry, 0, clock.Now().After(30*time.Millisecond)))
		require.Equal(t, 30*time.Millisecond, took(time.Hour, 0, clock.Now().After(30*time.Millisecond)))
	})
}

func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	for name, listener := range map[string]*notify.Listener{"polling": nil,
		"listening": notify.NewHub().Listen()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seen{answers: []notify.Seen{{Held: true, Left: time.Hour}}}
			stop := make(chan struct{})
			w := notify.Wait{Listener: listener, Look: s.look, Stop: stop}
			defer w.Leave()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, w.Await(ctx, "job", time.Hour, 0, clock.Never), context.Canceled)
			close(stop)
			require.ErrorIs(t, w.Await(t.Context(), "job", time.Hour, 0, clock.Never), clock.ErrStopped)
		})
	}
}

// Of those of one Listener who wait for a key only the first is told, and when it leaves,
// the next one. Other Listeners and other keys have a first of their own.
func TestWatch(t *testing.T) {
	t.Parallel()
	hub := notify.NewHub()
	one, two := hub.Listen(), hub.Listen()
	first, second, third := one.Watch("job"), one.Watch("job"), one.Watch("job")
	other, apart := two.Watch("job"), one.Watch("another")
	told := func() (told []bool) {
		for _, w := range []*notify.Watch{first, second, third, other, apart} {
			select {
			case <-w.Changed():
				told = append(told, true)
			default:
				told = append(told, false)
			}
		}
		return told
	}
	require.Equal(t, []bool{false, false, false, false, false}, told())
	hub.Tell("job")
	hub.Tell("job")
	require.Equal(t, []bool{true, false, false, true, false}, told())
	require.True(t, one.Heard())
	second.Leave()
	require.Equal(t, []bool{false, false, false, false, false}, told())
	first.Leave()
	require.Equal(t, []bool{false, false, true, false, false}, told(), "it may have left without trying")
	hub.OnInvalidations(nil)
	require.Equal(t, []bool{false, false, true, true, true}, told())
	for _, w := range []*notify.Watch{other, third, apart} {
		w.Leave()
	}
	hub.Tell("job")
	require.Equal(t, []bool{false, false, false, false, false}, told())
}

// A change is never lost on its way from one who leaves to the next.
func TestWatchersLeave(t *testing.T) {
	t.Parallel()
	hub := notify.NewHub()
	listener := hub.Listen()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range 200 {
				w := listener.Watch("job")
				hub.Tell("job") // and so somebody is told, and then the next one
				<-w.Changed()
				w.Leave()
			}
		})
	}
	group.Wait()
}

// A grant that comes while the waiter looks at the key ends the wait at once: the look goes on without it.
func TestAwaitIsWokenDuringALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, wake := notify.NewHub(), make(chan struct{}, 1)
		var looks atomic.Int32
		w := notify.Wait{Listener: hub.Listen(), Wake: wake,
			Look: func(context.Context, string) (notify.Seen, error) {
				if looks.Add(1) == 2 {
					time.Sleep(time.Second)
				}
				return notify.Seen{Held: true, Left: time.Minute}, nil
			}}
		w.Listener.SetHeard(true)
		defer w.Leave()
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			hub.Tell("job")
			time.Sleep(time.Millisecond)
			wake <- struct{}{}
		})
		require.NoError(t, w.Await(t.Context(), "job", clock.NoExpiry, time.Minute, clock.Never))
		require.Equal(t, time.Second+time.Millisecond, time.Since(start))
		require.Equal(t, int32(2), looks.Load())
		time.Sleep(time.Second) // the look ends

		wake <- struct{}{} // before a look
		require.NoError(t, w.Await(t.Context(), "job", clock.NoExpiry, time.Minute, clock.Never))
		require.Equal(t, int32(2), looks.Load())
	})
}

// A hook of the client that panics in a look does so in the waiter. One that ends its goroutine is a look
// without an answer.
func TestAwaitAfterALookThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := func() { panic("hook") }
		w := notify.Wait{
			Listener: notify.NewHub().Listen(), Wake: make(chan struct{}),
			Look: func(context.Context, string) (notify.Seen, error) { end(); return notify.Seen{}, nil },
		}
		defer w.Leave()
		await := func() error { return w.Await(t.Context(), "job", time.Second, time.Minute, clock.Never) }
		require.PanicsWithValue(t, "hook", func() { _ = await() })
		end = runtime.Goexit
		start := time.Now()
		require.NoError(t, await())
		require.Equal(t, time.Second, time.Since(start))
	})
}
