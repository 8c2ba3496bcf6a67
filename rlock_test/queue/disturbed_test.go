package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// echo publishes each message once more, on the channel on which it was.
func echo(late time.Duration) func(t *testing.T, server *env.Server, client rueidis.Client) {
	var (
		mu    sync.Mutex
		heard = map[string]bool{}
	)
	return func(t *testing.T, server *env.Server, client rueidis.Client) {
		spy, release := client.Dedicate()
		defer release()
		messages := make(chan rueidis.PubSubMessage, 1000)
		spy.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m }})
		if names := channels(t, client); len(names) > 0 {
			_ = spy.Do(t.Context(), spy.B().Ssubscribe().Channel(names...).Build()).Error()
		}
		for end := time.After(200 * time.Millisecond); ; {
			select {
			case m := <-messages:
				mu.Lock()
				again := heard[m.Message]
				heard[m.Message] = true
				mu.Unlock()
				if again {
					continue
				}
				time.AfterFunc(time.Duration(rand.Int64N(int64(late)+1)), func() {
					_ = client.Do(context.Background(),
						client.B().Spublish().Channel(m.Channel).Message(m.Message).Build()).Error()
				})
			case <-end:
				return
			}
		}
	}
}

// kinds are the kinds of callers.
var kinds = [][]rlock.Option{
	nil, nil,
	{rlock.WithFence(false)},
	{rlock.WithTTL(rlock.NoExpiry)},
	{rlock.WithTTL(10 * time.Second)},
	{rlock.WithOwner("some owner")},
	{rlock.WithUniqueToken(true)},
}

// Whatever ends the waits, and whatever happens to subscriptions, one holds the lock at a time,
// fences rise, and at the end nothing is left.
func TestQueueUnderEverything(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(t *testing.T, server *env.Server, client rueidis.Client){
		"nothing": func(*testing.T, *env.Server, rueidis.Client) { time.Sleep(time.Millisecond) },
		"subscriptions break": func(t *testing.T, server *env.Server, client rueidis.Client) {
			_ = env.Do(t, client, "CLIENT", "KILL", "TYPE", "pubsub").Error()
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		},
		"the queue is deleted": func(t *testing.T, server *env.Server, client rueidis.Client) {
			_ = env.Do(t, client, "DEL", queueOf(t, client, "k")).Error()
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		},
		"a user loses and gets rights": func(t *testing.T, server *env.Server, client rueidis.Client) {
			for _, right := range []string{"-spublish", "+spublish", "resetchannels", "&*"} {
				_ = env.Do(t, client, "ACL", "SETUSER", "default", right).Error()
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		},
		"messages come twice":       echo(0),
		"messages come again, late": echo(30 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				server := e.Start(t)
				client := server.Client(t)
				var inside, got, gaveUp, lost atomic.Int64
				var fence atomic.Uint64
				var last, gap atomic.Int64 // when somebody has got the lock, and the longest time between two
				last.Store(time.Now().UnixNano())
				stop := make(chan struct{})
				time.AfterFunc(4*time.Second, func() { close(stop) })
				var all sync.WaitGroup
				for range 4 {
					l := env.OpenOn(t, server, rlock.WithTTL(20*time.Second))
					for range 3 {
						all.Go(func() {
							for {
								select {
								case <-stop:
									return
								default:
								}
								ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(60))*time.Millisecond)
								lock, err := l.Acquire(ctx, "k", kinds[rand.IntN(len(kinds))]...)
								cancel()
								if err != nil {
									if !errors.Is(err, context.DeadlineExceeded) {
										t.Error(err)
									}
									gaveUp.Add(1)
									continue
								}
								got.Add(1)
								now := time.Now().UnixNano()
								if d := now - last.Swap(now); d > gap.Load() {
									gap.Store(d)
								}
								if n := inside.Add(1); n != 1 {
									t.Errorf("%d hold the lock", n)
								}
								if f := lock.Fence(); f != 0 {
									if before := fence.Swap(f); before >= f {
										t.Errorf("fence %d after %d", f, before)
									}
								}
								time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
								inside.Add(-1)
								if err := lock.Release(t.Context()); err != nil {
									lost.Add(1)
								}
							}
						})
					}
				}
				done := make(chan struct{})
				go func() { all.Wait(); close(done) }()
				for {
					select {
					case <-done:
						t.Logf("%d acquired, %d gave up, %d lost, gap %v", got.Load(), gaveUp.Load(), lost.Load(),
							time.Duration(gap.Load()))
						require.Positive(t, got.Load())
						require.Zero(t, lost.Load())
						idle(t, client, "k")
						return
					default:
						disturb(t, server, client)
					}
				}
			})
		})
	}
}
