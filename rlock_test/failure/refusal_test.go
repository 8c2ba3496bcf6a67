package failure

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// looping has the server busy with a script until end is called, and then waits for
// the end of it.
func looping(t *testing.T, server *env.Server) (end func()) {
	t.Helper()
	server.Do(t, "CONFIG", "SET", "busy-reply-threshold", "50")
	client, other, ended := server.Client(t), server.Client(t), make(chan struct{})
	go func() {
		defer close(ended)
		client.Do(context.Background(), client.B().Eval().Script("while true do end").Numkeys(0).Build())
	}()
	env.Soon(t, func() bool { return env.Do(t, other, "EXISTS", "x").Error() != nil }, "the server is busy")
	return func() {
		server.Do(t, "SCRIPT", "KILL")
		env.Receive(t, ended)
	}
}

// unwritable has the server fail to write its data to disk, and after that accept no
// writes.
func unwritable(t *testing.T, server *env.Server) (end func()) {
	t.Helper()
	reply := server.Do(t, "CONFIG", "GET", "dir")
	config, err := reply.AsStrMap()
	require.NoError(t, err)
	// Nobody can put a file in the place of a directory that has something in it.
	require.NoError(t, os.MkdirAll(filepath.Join(config["dir"], "dump.rdb", "full"), 0o700))
	server.Do(t, "CONFIG", "SET", "save", "3600 1000000")
	client := server.Client(t)
	server.Do(t, "BGSAVE")
	env.Soon(t, func() bool { return env.Do(t, client, "APPEND", "x", "1").Error() != nil }, "saving has failed")
	return func() { server.Do(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }
}

// orphaned has the server follow another that is not there.
func orphaned(t *testing.T, server *env.Server) (end func()) {
	t.Helper()
	server.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	return func() { server.Do(t, "REPLICAOF", "NO", "ONE") }
}

// A server that is up and will not work says so, and so do the locks, at once. It has
// done nothing, so there is nothing to free, and a lock that was held before still is.
// Only what passes by itself is waited out, by those who wait anyway.
func TestRefusals(t *testing.T) {
	t.Parallel()
	config := func(name, bad, good string) func(*testing.T, *env.Server) func() {
		return func(t *testing.T, server *env.Server) func() {
			server.Do(t, "CONFIG", "SET", name, bad)
			return func() { server.Do(t, "CONFIG", "SET", name, good) }
		}
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		for code, test := range map[string]struct {
			start  func(t *testing.T, server *env.Server) (end func())
			passes bool
		}{
			"NOREPLICAS": {config("min-replicas-to-write", "1", "0"), false},
			"MISCONF":    {unwritable, false},
			"BUSY":       {looping, false},
			"MASTERDOWN": {orphaned, true},
		} {
			t.Run(code, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t)
				option := server.Option()
				option.PipelineMultiplex = -1 // one connection, open already: who is busy takes no others
				locker := env.OpenLocker(t, option)
				held, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Minute))
				require.NoError(t, err)
				before := server.CommandStats(t)
				end := test.start(t, server)
				for _, call := range []func(ctx context.Context) error{
					func(ctx context.Context) error { return env.ErrorOf(locker.TryAcquire(ctx, "job")) },
					func(ctx context.Context) error { return env.ErrorOf(locker.TryAcquireAll(ctx, []string{"a", "b"})) },
					func(ctx context.Context) error { return held.Extend(ctx, time.Hour) },
				} {
					env.Surfaces(t, code, call)
				}
				require.Equal(t, uint64(3), locker.Stats().Attempts, "a refusal is an answer, and nobody asks again")
				require.NoError(t, held.Err(), "an error is not a loss")
				require.Less(t, time.Until(held.Deadline()), 2*time.Minute)
				if !test.passes {
					env.Surfaces(t, code, func(ctx context.Context) error { return env.ErrorOf(locker.Acquire(ctx, "job")) })
				}
				waiting := make(chan *rlock.Lock, 1)
				if test.passes {
					go func() { waiting <- env.MustLock(t)(locker.Acquire(t.Context(), "waited for")) }()
					env.Soon(t, func() bool { return locker.Stats().Attempts >= 6 }, "it asks again and again")
				}
				end()

				if test.passes {
					require.NoError(t, env.Receive(t, waiting).Release(t.Context()))
				} else {
					after := server.CommandStats(t)
					for _, name := range []string{"set", "incr", "pexpire", "del"} {
						require.Equal(t, before[name], after[name], "%s: nothing was done, and nothing had to be undone", name)
					}
				}
				require.NoError(t, held.Extend(t.Context(), time.Hour))
				lock, err := locker.TryAcquire(t.Context(), "job")
				require.NoError(t, err)
				require.NoError(t, lock.Release(t.Context()))
				require.NoError(t, held.Release(t.Context()))
			})
		}
	})
}
