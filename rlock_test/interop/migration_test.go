package interop

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The code of MIGRATION.md, both sides of each library. What is opened is closed by the caller.

func openTheirRueidislock(option rueidis.ClientOption) (rueidislock.Locker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   option,
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	return locker, err
}

func theirRueidislock(ctx context.Context, locker rueidislock.Locker,
	work func(context.Context) error) error {
	ctx, cancel, err := locker.WithContext(ctx, "order:17")
	if err != nil {
		return err
	}
	defer cancel()
	return work(ctx)
}

func openForRueidislock(option rueidis.ClientOption) (*rlock.Locker, error) {
	locker, err := rlock.Open(option, rlock.WithPrefix("rueidislock:0:"))
	return locker, err
}

func insteadOfRueidislock(ctx context.Context, locker *rlock.Locker, work func(context.Context) error) error {
	err := locker.Do(ctx, "order:17", func(ctx context.Context, _ *rlock.Lock) error {
		return work(ctx)
	})
	return err
}

func insteadOfAMajority(ctx context.Context, locker *rlock.Locker, work func(context.Context) error) error {
	keys := []string{"rueidislock:0:order:17", "rueidislock:1:order:17"}
	err := locker.DoAll(ctx, keys, func(ctx context.Context, _ *rlock.Lock) error {
		return work(ctx)
	})
	return err
}

func theirRedislock(ctx context.Context, client *redis.Client, work func(context.Context) error) error {
	locker := redislock.New(client)
	lock, err := locker.Obtain(ctx, "order:17", 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return err // redislock.ErrNotObtained after 30 seconds
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func insteadOfRedislock(ctx context.Context, locker *rlock.Locker, work func(context.Context) error) error {
	err := locker.Do(ctx, "order:17", func(ctx context.Context, _ *rlock.Lock) error {
		return work(ctx) // this ctx ends with the lock too, and the lease is extended until work returns
	}, rlock.WithTTL(30*time.Second), rlock.WithRetry(rlock.DefaultRetry().MaxTime(30*time.Second)))
	return err // of work, or rlock.ErrGaveUp after 30 seconds
}

func theirRedsync(ctx context.Context, client *redis.Client, work func(context.Context) error) error {
	sync := redsync.New(goredis.NewPool(client))
	mutex := sync.NewMutex("order:17", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err // after 32 tries
	}
	defer mutex.UnlockContext(ctx)
	return work(ctx)
}

func insteadOfRedsync(ctx context.Context, locker *rlock.Locker, work func(context.Context) error) error {
	err := locker.Do(ctx, "order:17", func(ctx context.Context, _ *rlock.Lock) error {
		return work(ctx) // this ctx ends with the lock too, and the lease is extended until work returns
	}, rlock.WithTTL(30*time.Second), rlock.WithRetry(rlock.DefaultRetry().MaxTime(10*time.Second)))
	return err // of work, or rlock.ErrGaveUp after 10 seconds
}

// waitsAgain is theirRueidislock for a test: it asks again after a while. A waiter of rueidislock relies on a
// message for ever, and has been seen on a busy machine to wait for a key that was free.
func waitsAgain(ctx context.Context, locker rueidislock.Locker, work func(context.Context) error) error {
	for {
		waits, giveUp := context.WithCancel(ctx)
		timer, begun := time.AfterFunc(short, giveUp), false
		err := theirRueidislock(waits, locker, func(ctx context.Context) error {
			if begun = timer.Stop(); !begun {
				return context.Canceled
			}
			return work(ctx)
		})
		giveUp()
		if begun || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// rueidislockHolds has rueidislock take a free lock, and returns its context. WithContext has been seen to
// wait for one.
func rueidislockHolds(t *testing.T, parent context.Context, locker rueidislock.Locker,
	name string) (ctx context.Context) {
	t.Helper()
	env.Soon(t, func() (taken bool) {
		held, _, err := locker.TryWithContext(parent, name)
		ctx = held
		return err == nil
	}, "rueidislock has the lock")
	return ctx
}

// runner runs work under a lock.
type runner func(ctx context.Context, work func(context.Context) error) error

// Old and new code of MIGRATION.md run beside each other, as during a rolling deployment, and
// exclude each other.
func TestMigration(t *testing.T) {
	t.Parallel()
	server := env.Engines(t)[0]
	for name, open := range map[string]func(t *testing.T, s *env.Server) (theirs, ours runner){
		"rueidislock": func(t *testing.T, s *env.Server) (theirs, ours runner) {
			old, err := openTheirRueidislock(s.Option())
			require.NoError(t, err)
			t.Cleanup(old.Close)
			locker, err := openForRueidislock(s.Option())
			require.NoError(t, err)
			t.Cleanup(locker.Close)
			return func(ctx context.Context, work func(context.Context) error) error {
					return waitsAgain(ctx, old, work)
				}, func(ctx context.Context, work func(context.Context) error) error {
					return insteadOfRueidislock(ctx, locker, work)
				}
		},
		"majority": func(t *testing.T, s *env.Server) (theirs, ours runner) {
			old, err := rueidislock.NewLocker(
				rueidislock.LockerOption{ClientOption: s.Option(), TryNextAfter: 5 * time.Second})
			require.NoError(t, err)
			t.Cleanup(old.Close)
			locker := env.OpenOn(t, s)
			return func(ctx context.Context, work func(context.Context) error) error {
					return waitsAgain(ctx, old, work)
				}, func(ctx context.Context, work func(context.Context) error) error {
					return insteadOfAMajority(ctx, locker, work)
				}
		},
		"redislock": func(t *testing.T, s *env.Server) (theirs, ours runner) {
			client, locker := goRedis(t, s.Addr()), env.OpenOn(t, s)
			return func(ctx context.Context, work func(context.Context) error) error {
					return theirRedislock(ctx, client, work)
				}, func(ctx context.Context, work func(context.Context) error) error {
					return insteadOfRedislock(ctx, locker, work)
				}
		},
		"redsync": func(t *testing.T, s *env.Server) (theirs, ours runner) {
			client, locker := goRedis(t, s.Addr()), env.OpenOn(t, s)
			return func(ctx context.Context, work func(context.Context) error) error {
					return theirRedsync(ctx, client, work)
				}, func(ctx context.Context, work func(context.Context) error) error {
					return insteadOfRedsync(ctx, locker, work)
				}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			theirs, ours := open(t, s)
			client := s.Client(t)
			const rounds = 20
			count := func(ctx context.Context) error { // loses updates without a lock
				n, err := client.Do(ctx, client.B().Get().Key("count").Build()).AsInt64()
				if err != nil && !rueidis.IsRedisNil(err) {
					return err
				}
				time.Sleep(time.Millisecond)
				write := client.B().Set().Key("count").Value(strconv.FormatInt(n+1, 10)).Build()
				return client.Do(ctx, write).Error()
			}
			require.NoError(t, env.Together(2, func(i int) error {
				for range rounds {
					if err := []runner{theirs, ours}[i](t.Context(), count); err != nil {
						return err
					}
				}
				return nil
			}))
			require.Equal(t, strconv.Itoa(2*rounds), env.Get(t, client, "count"))
		})
	}
}

// What MIGRATION.md says of the others' limits and of rlock's is so.
func TestMigrationTraps(t *testing.T) {
	t.Parallel()
	engine := env.Engines(t)[0]

	t.Run("retries", func(t *testing.T) {
		t.Parallel()
		s := engine.Start(t)
		client, locker, holder := goRedis(t, s.Addr()), env.OpenOn(t, s), env.OpenOn(t, s)
		held, err := holder.Acquire(t.Context(), "order:17", rlock.WithTTL(long))
		require.NoError(t, err)

		_, err = redislock.New(client).Obtain(t.Context(), "order:17", long, nil)
		require.ErrorIs(t, err, redislock.ErrNotObtained, "at once")
		_, err = redislock.New(client).Obtain(t.Context(), "order:17", short,
			&redislock.Options{RetryStrategy: redislock.LinearBackoff(while)})
		// during a try
		require.True(t, errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded),
			"after the length of a lease: %v", err)
		tries := 0
		_, err = redislock.New(client).Obtain(t.Context(), "order:17", long, &redislock.Options{
			RetryStrategy: redislock.LimitRetry(counted{&tries, redislock.LinearBackoff(time.Millisecond)}, 3),
		})
		require.ErrorIs(t, err, redislock.ErrNotObtained)
		require.Equal(t, 3, tries, "three retries are four attempts")
		pauses := 0
		mutex := redsync.New(goredis.NewPool(client)).NewMutex("order:17",
			redsync.WithRetryDelayFunc(func(int) time.Duration {
				pauses++
				return time.Millisecond
			}))
		var taken *redsync.ErrTaken
		require.ErrorAs(t, mutex.LockContext(t.Context()), &taken)
		require.Equal(t, 31, pauses, "between 32 tries")

		_, err = locker.Acquire(t.Context(), "order:17",
			rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(4)))
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.Equal(t, 4, facts.Attempts)
		_, err = locker.Acquire(t.Context(), "order:17", rlock.WithRetry(rlock.DefaultRetry().MaxTime(while)))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		got := make(chan error, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "order:17", rlock.WithTTL(short))
			if err == nil {
				err = lock.Release(t.Context())
			}
			got <- err
		}()
		env.AwaitWaiting(t, locker, 1)
		select {
		case err := <-got:
			t.Fatal("it does not wait for ever: ", err)
		case <-time.After(2 * short):
		}
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Receive(t, got))
	})

	t.Run("context", func(t *testing.T) {
		t.Parallel()
		s := engine.Start(t)
		old, err := openTheirRueidislock(s.Option())
		require.NoError(t, err)
		t.Cleanup(old.Close)
		locker := env.OpenOn(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		rueidislockHolds(t, ctx, old, "theirs")
		ours, err := locker.Acquire(ctx, "ours", rlock.WithTTL(long))
		require.NoError(t, err)
		done := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			done <- locker.Do(ctx, "during", func(ctx context.Context, _ *rlock.Lock) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		env.Receive(t, begun)
		cancel()
		env.Soon(t, func() bool {
			n := s.Do(t, "EXISTS", "rueidislock:0:theirs")
			left, err := n.AsInt64()
			return err == nil && left == 0
		}, "theirs is released with its context")
		require.ErrorIs(t, env.Receive(t, done), context.Canceled, "and so is that of Do")
		require.NoError(t, ours.Err(), "that of Acquire is not")
		require.NoError(t, ours.Release(ctx), "and is released in spite of its context")
	})

	t.Run("extending", func(t *testing.T) {
		t.Parallel()
		s := engine.Start(t)
		locker := env.OpenOn(t, s)
		fixed, err := locker.Acquire(t.Context(), "fixed", rlock.WithTTL(short))
		require.NoError(t, err)
		extended, err := locker.Acquire(t.Context(), "extended", rlock.WithTTL(short), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		env.AwaitEnd(t, fixed, rlock.ErrExpired)
		require.NoError(t, extended.Err())
		require.NoError(t, extended.Extend(t.Context(), long))
		require.Greater(t, time.Until(extended.Deadline()), long/2)
		require.NoError(t, extended.Release(t.Context()))
		require.ErrorIs(t, extended.Release(t.Context()), rlock.ErrNotHeld)
	})
}

// counted counts the retries that a strategy allows.
type counted struct {
	n    *int
	then redislock.RetryStrategy
}

func (c counted) NextBackoff() time.Duration {
	*c.n++
	return c.then.NextBackoff()
}

// Every Go block of MIGRATION.md stands in this file, and so compiles and runs.
func TestMigrationSnippets(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/MIGRATION.md")
	require.NoError(t, err)
	file, err := os.ReadFile("migration_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 9)
	for _, block := range blocks {
		require.Contains(t, unindented(string(file)), unindented(block[1]))
	}
	for _, row := range table(t) {
		if strings.HasPrefix(row.library, "github.com/") && !strings.Contains(row.library, "FallbackSETPX") {
			require.Contains(t, string(page), " "+row.version, "the version of %s", row.library)
		}
	}
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
