package failure

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// lone is a caller whose calls have a connection of their own.
type lone struct {
	*rlock.Locker
	t      *testing.T
	server *env.Server
	proxy  *env.Proxy
}

func newLone(t *testing.T) *lone {
	server := env.Engines(t)[0].Start(t)
	c := &lone{t: t, server: server, proxy: env.NewProxy(t, server.Addr())}
	c.Locker = env.OpenLocker(t, rueidis.ClientOption{
		InitAddress: []string{c.proxy.Addr()}, ClientName: "lone", PipelineMultiplex: -1,
	})
	c.warm()
	return c
}

func (c *lone) connections() int { return c.server.Connections(c.t, "lone") }

// warm has the caller work until it has a connection, and uses it.
func (c *lone) warm() {
	c.t.Helper()
	env.Soon(c.t, func() bool {
		for range 100 {
			c.cycle("job")
		}
		return c.connections() == 2
	}, "it has a connection")
	c.cycle("job")
}

func (c *lone) cycle(key string) {
	c.t.Helper()
	lock, err := c.Acquire(c.t.Context(), key)
	require.NoError(c.t, err)
	require.NoError(c.t, lock.Release(c.t.Context()))
}

// wantFree waits until nobody has a key.
func (c *lone) wantFree(key string) {
	c.t.Helper()
	other := env.OpenLocker(c.t, c.server.Option())
	env.Soon(c.t, func() bool {
		held, err := other.Inspect(c.t.Context(), key)
		return err == nil && !held.Held
	}, "the key is free")
}

// A caller who is alone has a connection while one call follows the other, and a little longer.
func TestLoneCallerHasAConnection(t *testing.T) {
	t.Parallel()
	c := newLone(t)
	env.Soon(t, func() bool { return c.connections() == 1 }, "nobody uses the connection")
	c.warm()
	c.Close()
	env.Soon(t, func() bool { return c.connections() == 0 }, "the Locker is closed")
}

// A call on such a connection ends with its context, and what it may have taken is freed.
func TestLoneCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newLone(t)
	for end, with := range ends {
		c.proxy.BlackHole(true)
		ctx, cancel := with(t.Context())
		over := make(chan time.Time, 1)
		context.AfterFunc(ctx, func() { over <- time.Now() })
		_, err := c.Acquire(ctx, "given up")
		late := time.Since(<-over)
		cancel()
		require.ErrorIs(t, err, rlock.ErrGaveUp, end)
		require.Less(t, late, time.Second, end)
		t.Logf("%s: %v after its context", end, late.Round(time.Microsecond))
		c.proxy.BlackHole(false)
		c.cycle("job")
		c.wantFree("given up")
		time.Sleep(5 * time.Second) // it has no other connection before
		c.warm()
	}
}

// When the connection is lost, calls go on: before they are sent, with the command, and with the answer.
func TestLoneCallsOutliveTheirConnection(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(c *lone){
		"before":          func(c *lone) { c.proxy.Cut() },
		"with an acquire": func(c *lone) { c.proxy.DropReply(called(gen.AcquireSHA1)) },
		"with a release":  func(c *lone) { c.proxy.DropReply(called(gen.ReleaseSHA1)) },
		"with a restart": func(c *lone) {
			c.server.Kill()
			c.server.Restart(c.t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newLone(t)
			lose(c)
			lock, err := c.Acquire(t.Context(), "lost")
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			c.wantFree("lost")
		})
	}
}

func called(sha string) func(request []byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(sha)) }
}
