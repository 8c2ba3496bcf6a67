package failure

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// failing is a server that fails as it is told to: the embedded one, or a real one
// behind a proxy.
type failing interface {
	option() rueidis.ClientOption
	refuseAcquire(t *testing.T) (again func()) // for want of memory, the next one at least
	loseAcquire()
	silence() (lift func())
	delay(d time.Duration)
	stop()
	restart(t *testing.T, data rlocktest.Data)
	take(t *testing.T, key string, ttl time.Duration)
	free(t *testing.T, key string)
	shorten(t *testing.T, key string, ttl time.Duration)
	value(t *testing.T, key string) string
}

type inProcess struct{ *rlocktest.Server }

func (e inProcess) option() rueidis.ClientOption { return e.Option() }

func (e inProcess) refuseAcquire(t *testing.T) (again func()) {
	failed := e.FailNext(rlocktest.Acquires, "OOM command not allowed when used memory > 'maxmemory'.")
	return func() { receives(t, failed) }
}

func (e inProcess) loseAcquire() { e.LoseReply(rlocktest.Acquires) }

func (e inProcess) silence() (lift func()) { return e.Silence() }

func (e inProcess) delay(d time.Duration) { e.Delay(d) }

func (e inProcess) stop() { e.Stop() }

func (e inProcess) restart(t *testing.T, data rlocktest.Data) { require.NoError(t, e.Restart(data)) }

func (e inProcess) take(_ *testing.T, key string, ttl time.Duration) { e.Take(key, ttl) }

func (e inProcess) free(_ *testing.T, key string) { e.Free(key) }

func (e inProcess) shorten(_ *testing.T, key string, ttl time.Duration) { e.Shorten(key, ttl) }

func (e inProcess) value(_ *testing.T, key string) string {
	value, _ := e.Redis().Get(key) // the error is that there is none
	return value
}

// receives waits for a channel to be closed.
func receives(t *testing.T, done <-chan struct{}) {
	t.Helper()
	env.Receive(t, done)
}

type proxied struct {
	*env.Server
	proxy *env.Proxy
}

func (p proxied) option() rueidis.ClientOption {
	option := p.Option()
	option.InitAddress = []string{p.proxy.Addr()}
	return option
}

func (p proxied) refuseAcquire(t *testing.T) (again func()) {
	p.Do(t, "CONFIG", "SET", "maxmemory", "1")
	return func() { p.Do(t, "CONFIG", "SET", "maxmemory", "0") }
}

func (p proxied) loseAcquire() { p.proxy.DropReply(env.Contains(gen.AcquireSHA1)) }

func (p proxied) silence() (lift func()) {
	p.proxy.BlackHole(true)
	return func() { p.proxy.BlackHole(false) }
}

func (p proxied) delay(d time.Duration) { p.proxy.Delay(d / 2) } // both ways

func (p proxied) stop() { p.Kill() }

func (p proxied) restart(t *testing.T, data rlocktest.Data) {
	if data == rlocktest.LoseData {
		p.Restart(t)
		p.Do(t, "FLUSHALL")
		p.Kill()
	}
	p.Restart(t)
}

func (p proxied) take(t *testing.T, key string, ttl time.Duration) {
	p.Do(t, "SET", key, "stranger", "PX", milliseconds(ttl))
}

func (p proxied) free(t *testing.T, key string) { p.Do(t, "DEL", key) }

func (p proxied) shorten(t *testing.T, key string, ttl time.Duration) {
	p.Do(t, "PEXPIRE", key, milliseconds(ttl))
}

func (p proxied) value(t *testing.T, key string) string {
	reply := p.Do(t, "GET", key)
	value, _ := reply.ToString() // the error is that there is none
	return value
}

// What the embedded server can be told to do to its clients, a real server and a network
// do to them, and locks fare the same with both.
func TestEmbeddedFaultsAreThoseOfServers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) failing{
		"embedded":            func(t *testing.T) failing { return inProcess{rlocktest.Start(t)} },
		"embedded, in memory": func(t *testing.T) failing { return inProcess{rlocktest.StartInMemory(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failAlike(t, start)
		})
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		failAlike(t, func(t *testing.T) failing {
			server := e.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			return proxied{server, env.NewProxy(t, server.Addr())}
		})
	})
}

func failAlike(t *testing.T, start func(t *testing.T) failing) {
	// ready returns a Locker whose server knows the scripts.
	ready := func(t *testing.T, opts ...rlock.LockerOption) (failing, *rlock.Locker) {
		server := start(t)
		locker := env.OpenLocker(t, server.option(), opts...)
		lock, err := locker.TryAcquire(t.Context(), "first")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		return server, locker
	}
	t.Run("a command that is refused", func(t *testing.T) {
		t.Parallel()
		server, locker := ready(t)
		again := server.refuseAcquire(t)
		_, err := locker.TryAcquire(t.Context(), "job")
		var refusal *rueidis.RedisError
		require.ErrorAs(t, err, &refusal)
		require.True(t, strings.HasPrefix(refusal.Error(), "OOM"), "%v", refusal)
		require.Empty(t, server.value(t, "job"))
		again()
		lock, err := locker.TryAcquire(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, lock.Token(), server.value(t, "job"))
	})
	t.Run("a reply that is lost", func(t *testing.T) {
		t.Parallel()
		server, locker := ready(t)
		server.loseAcquire()
		lock, err := locker.TryAcquire(t.Context(), "job", rlock.WithToken("mine"))
		require.NoError(t, err, "it is asked again")
		require.Equal(t, "mine", server.value(t, "job"))
		require.NoError(t, lock.Release(t.Context()))

		// To somebody who does not ask again, it is unknown what has happened.
		option := server.option()
		option.DisableRetry = true
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		defer client.Close()
		server.loseAcquire()
		_, err = gen.New(redislua.WithoutRetry()).Acquire(
			t.Context(), client, gen.AcquireParams{Lock: "job", Queue: "queue", Token: "other", TTL: time.Minute},
		)
		require.Error(t, err)
		_, answered := rueidis.IsRedisErr(err)
		require.False(t, answered, "%v", err)
		env.Soon(t, func() bool { return server.value(t, "job") == "other" }, "it ran")
	})
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		server, locker := ready(t)
		lock, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		ctx := lock.Context()
		lift := server.silence()
		defer lift()
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = locker.TryAcquire(short, "job", rlock.WithToken("mine")) // whose rest nobody cleans up
		require.ErrorIs(t, err, context.DeadlineExceeded)
		env.Receive(t, ctx.Done()) // nobody can have extended it
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrExpired)
		lift()
		long, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		after, err := locker.Acquire(long, "held")
		require.NoError(t, err, "connections work again")
		require.NoError(t, after.Release(t.Context()))
		require.Empty(t, server.value(t, "job"), "what was sent into the silence never ran")
	})
	t.Run("slowness", func(t *testing.T) {
		t.Parallel()
		server, locker := ready(t)
		const delay = time.Second
		server.delay(delay)
		began := time.Now()
		require.NoError(t, env.Together(20, func(i int) error {
			lock, err := locker.TryAcquire(t.Context(), strings.Repeat("job", i+1), rlock.WithTTL(time.Hour))
			if err == nil {
				err = lock.Release(t.Context())
			}
			return err
		}))
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 2*delay, "two calls")
		require.Less(t, took, 30*delay, "of 20 at once, not of one after the other")
	})
	t.Run("a restart", func(t *testing.T) {
		t.Parallel()
		for name, data := range map[string]rlocktest.Data{"with data": rlocktest.KeepData,
			"without": rlocktest.LoseData} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server, locker := ready(t)
				lock, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(15*time.Second),
					rlock.WithAutoExtend(true))
				require.NoError(t, err)
				server.stop()
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				_, err = locker.TryAcquire(ctx, "job")
				require.Error(t, err)
				server.restart(t, data)
				env.Soon(t, func() bool {
					lock, err := locker.TryAcquire(t.Context(), "job")
					return err == nil && lock.Release(t.Context()) == nil
				}, "it is found again, and learns the scripts anew")
				if data == rlocktest.LoseData {
					env.AwaitEnd(t, lock, rlock.ErrLost)
					return
				}
				require.Equal(t, lock.Token(), server.value(t, "held"))
				require.NoError(t, lock.Err())
			})
		}
	})
	t.Run("a stranger", func(t *testing.T) {
		t.Parallel()
		server, locker := ready(t, rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		acquire := func(key string) *rlock.Lock {
			lock, err := locker.Acquire(t.Context(), key)
			require.NoError(t, err)
			return lock
		}
		taken, freed, shortened := acquire("taken"), acquire("freed"), acquire("shortened")
		time.Sleep(200 * time.Millisecond) // they have been read
		server.take(t, "taken", time.Minute)
		env.AwaitEnd(t, taken, rlock.ErrLost)
		server.free(t, "freed")
		env.AwaitEnd(t, freed, rlock.ErrLost)
		server.shorten(t, "shortened", 12*time.Second)
		time.Sleep(12500 * time.Millisecond)
		require.NoError(t, shortened.Err())
		require.Equal(t, shortened.Token(), server.value(t, "shortened"), "it was extended")

		waiting := env.NextInLine(t, locker, "taken")
		server.free(t, "taken")
		env.Taken(t, waiting)
	})
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
