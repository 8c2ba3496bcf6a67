package failure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// lone is a caller whose calls have a connection of their own.
type lone struct {
	*rlock.Locker
	t      *testing.T
	server *env.Server
	proxy  *env.Proxy
}

func newLone(t *testing.T, changes ...func(*rueidis.ClientOption)) *lone {
	server := env.Engines(t)[0].Start(t)
	c := &lone{t: t, server: server, proxy: env.NewProxy(t, server.Addr())}
	option := rueidis.ClientOption{
		InitAddress: []string{c.proxy.Addr()}, ClientName: "lone", PipelineMultiplex: -1,
	}
	for _, change := range changes {
		if change != nil {
			change(&option)
		}
	}
	c.Locker = env.OpenLocker(t, option)
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
		held, err := env.Admin(other).Inspect(c.t.Context(), key)
		return err == nil && held.Mode == rlockadmin.Free
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

// Probe asks on the connections that the server tells of changes.
func TestProbeOfALoneCaller(t *testing.T) {
	t.Parallel()
	c := newLone(t)
	report, err := c.Probe(t.Context())
	require.NoError(t, err)
	require.NoError(t, report.Err())
}

// Who reads from the cache has no connection of its own: it hears of what another connection writes later.
func TestLoneCallerWhoChecks(t *testing.T) {
	t.Parallel()
	server := env.Engines(t)[0].Start(t)
	option := server.Option()
	option.ClientName, option.PipelineMultiplex = "lone", -1
	locker := env.OpenLocker(t, option)
	for range 300 {
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		_, err = locker.Check(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	}
	require.Equal(t, 1, server.Connections(t, "lone"))
}

// deaf is a connection that has no deadlines.
type deaf struct{ net.Conn }

func (deaf) SetDeadline(time.Time) error      { return errors.New("no deadlines") }
func (deaf) SetReadDeadline(time.Time) error  { return errors.New("no deadlines") }
func (deaf) SetWriteDeadline(time.Time) error { return errors.New("no deadlines") }

// A call of a lone caller ends with its context, whatever the connection is and whatever else goes on.
func TestLoneCallEndsWithItsContextInAnyCase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *rueidis.ClientOption)
		call   func(ctx context.Context, c *lone) error
		closes bool
	}{
		"a connection without deadlines": {
			change: func(o *rueidis.ClientOption) {
				o.DialCtxFn = func(
					ctx context.Context, address string, d *net.Dialer, _ *tls.Config,
				) (net.Conn, error) {
					conn, err := d.DialContext(ctx, "tcp", address)
					if err != nil {
						return nil, err
					}
					return deaf{conn}, nil
				}
			},
		},
		"a pool for long calls": {
			change: func(o *rueidis.ClientOption) { o.BlockingPipeline = 2 },
			call: func(ctx context.Context, c *lone) error {
				_, err := c.TryAcquireEach(ctx, []string{"a", "b", "c"})
				return err
			},
		},
		"the Locker is closed meanwhile": {closes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLone(t, c.change)
			l.proxy.BlackHole(true)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if c.closes {
				time.AfterFunc(20*time.Millisecond, l.Close)
			}
			if c.call == nil {
				c.call = func(ctx context.Context, l *lone) error {
					_, err := l.Acquire(ctx, "given up")
					return err
				}
			}
			began := make(chan time.Time, 1)
			context.AfterFunc(ctx, func() { began <- time.Now() })
			_ = c.call(ctx, l)
			most := 3 * time.Second // of those that would end with the time-out of the client, or never
			if c.closes {
				most = 800 * time.Millisecond // the client itself gives up after a second
			}
			require.Less(t, time.Since(<-began), most)
		})
	}
}
