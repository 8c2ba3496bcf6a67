package api

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// anyKeys are keys that somebody might send to do harm.
var anyKeys = map[string]string{
	"NUL":           "job\x00",
	"a line break":  "job\r\nSET other value\r\n",
	"braces":        "}{}{job}{",
	"invalid UTF-8": "\xff\xfe\xc0job",
	"a color":       "\x1b[31mjob",
	"64 KB":         strings.Repeat("job", 1<<16/3),
}

// shows checks that a text can be written to a terminal and a log, as one line.
func shows(t *testing.T, text string) {
	t.Helper()
	require.Less(t, len(text), 1000)
	require.True(t, utf8.ValidString(text))
	for _, r := range text {
		require.True(t, strconv.IsPrint(r), "%q in %q", r, text)
	}
}

// Waiting with push, hand-overs, batches, owners' texts and losses are the same for any
// key, and no error and no line of a log is longer or stranger for it.
func TestAnyKeyWorksAndShows(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, key := range anyKeys {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				var logs bytes.Buffer
				log := slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
				rival := env.OpenOn(t, server)
				locker := env.OpenOn(t, server, rlock.WithOwner("web-3"), rlock.WithObserver(rlock.SlogObserver(log)))
				fails := func(err, is error) {
					t.Helper()
					require.ErrorIs(t, err, is)
					shows(t, err.Error())
				}

				held, err := rival.Acquire(ctx, key, rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				fails(env.ErrorOf(locker.TryAcquire(ctx, key)), rlock.ErrHeld)
				fails(env.ErrorOf(locker.TryAcquireAll(ctx, []string{key + "a", key})), rlock.ErrHeld)
				fails(env.ErrorOf(locker.AcquireAll(ctx, []string{key, key})), rlock.ErrDuplicateKey)
				fails(env.ErrorOf(locker.Attach(ctx, env.NewHandoff(t, "theirs", 1, key))), rlock.ErrLost)
				fails(env.Admin(locker).ForceRelease(ctx, key, "theirs"), rlock.ErrLost)
				ended, cancel := context.WithCancel(ctx)
				cancel()
				fails(locker.WaitFree(ended, key), rlock.ErrGaveUp)
				env.AwaitCached(t, locker, key)

				got := make(chan *rlock.Lock, 1)
				go func() { got <- env.MustLock(t)(locker.Acquire(ctx, key, rlock.WithTTL(time.Minute))) }()
				env.AwaitWaiting(t, locker, 1)
				require.NoError(t, held.Release(ctx))
				lock := env.Receive(t, got)
				state := env.HolderOf(t, locker, key)
				require.Equal(t, lock.Token(), state.Token())
				require.Equal(t, "web-3", state.Owner)
				shows(t, lock.String())
				require.NoError(t, lock.Extend(ctx, time.Minute))
				lock.Context()
				server.Do(t, "SET", key, "thief")
				env.AwaitEnd(t, lock, rlock.ErrLost)
				fails(lock.Extend(ctx, time.Minute), rlock.ErrLost)
				fails(lock.Release(ctx), rlock.ErrLost)
				server.Do(t, "DEL", key)

				results, err := locker.TryAcquireEach(ctx, []string{key, key + "b"})
				require.NoError(t, err)
				require.NoError(t, results[0].Err)
				require.NoError(t, results[0].Lock.Release(ctx))
				require.NoError(t, results[1].Lock.Release(ctx))
				env.PassOn(t, rival, key, 5)
				env.PassOn(t, rival, key, 5, rlock.WithAutoExtend(true))
				locker.Close()
				fails(env.ErrorOf(locker.Acquire(ctx, key)), rlock.ErrClosed)

				require.Contains(t, logs.String(), "rlock: lost")
				for line := range strings.Lines(logs.String()) {
					shows(t, strings.TrimSuffix(line, "\n"))
				}
			})
		}
	})
}

// A key of any type and size that somebody else has put there is in the way, and does
// no other harm.
func TestForeignValuesAreHarmless(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenOn(t, server)
		big := strings.Repeat("\x00\xff\r\n", 1<<18)
		server.Do(t, "SET", "job", big)
		err := env.ErrorOf(locker.TryAcquire(t.Context(), "job"))
		require.ErrorIs(t, err, rlock.ErrHeld)
		shows(t, err.Error())
		state := env.HolderOf(t, locker, "job")
		require.Equal(t, big, state.Token())
		env.AwaitCached(t, locker, "job")
		got := make(chan *rlock.Lock, 1)
		go func() { got <- env.MustLock(t)(locker.Acquire(t.Context(), "job")) }()
		env.AwaitWaiting(t, locker, 1)
		require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), "job", big))
		lock := env.Receive(t, got)
		server.Do(t, "SET", "job", big)
		err = lock.Verify(t.Context())
		require.ErrorIs(t, err, rlock.ErrLost)
		shows(t, err.Error())
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
		require.Equal(t, big, env.Get(t, server.Client(t), "job"), "it is left alone")

		for name, put := range map[string][]string{
			"list": {"RPUSH", "x"}, "hash": {"HSET", "f", "v"}, "set": {"SADD", "x"}, "sorted set": {"ZADD", "1", "x"},
			"stream": {"XADD", "*", "f", "v"},
		} {
			server.Do(t, append([]string{put[0], name}, put[1:]...)...)
			env.Surfaces(t, "WRONGTYPE",
				func(ctx context.Context) error { return env.ErrorOf(locker.Acquire(ctx, name)) })
			env.Surfaces(t, "WRONGTYPE",
				func(ctx context.Context) error { return env.ErrorOf(locker.Check(ctx, name)) })
			env.Surfaces(t, "WRONGTYPE",
				func(ctx context.Context) error { return env.ErrorOf(env.Admin(locker).Inspect(ctx, name)) })
			env.Surfaces(t, "WRONGTYPE",
				func(ctx context.Context) error { return env.Admin(locker).ForceRelease(ctx, name, "x") })
			reply := server.Do(t, "EXISTS", name)
			n, err := reply.ToInt64()
			require.NoError(t, err)
			require.Equal(t, int64(1), n, "it is left alone")
		}
	})
}
