package conntrack_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/conntrack"
)

// client closes as it is told to.
type client func()

func (c client) Close() { c() }

const limit = 2 * time.Second

// pipes dials connections within the process.
type pipes struct{ dialled []*pipe }

type pipe struct {
	net.Conn
	closed atomic.Bool
}

func (p *pipe) Close() error {
	p.closed.Store(true)
	return p.Conn.Close()
}

func (p *pipes) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	here, _ := net.Pipe()
	p.dialled = append(p.dialled, &pipe{Conn: here})
	return p.dialled[len(p.dialled)-1], nil
}

func (p *pipes) requireClosed(t *testing.T, want ...bool) {
	t.Helper()
	for i, conn := range p.dialled {
		require.Equal(t, want[i], conn.closed.Load(), "connection %d of %d", i+1, len(p.dialled))
	}
}

func dialWith(t *testing.T, option rueidis.ClientOption) net.Conn {
	t.Helper()
	conn, err := option.DialCtxFn(t.Context(), "somewhere", &net.Dialer{}, nil)
	require.NoError(t, err)
	return conn
}

// A dial whose server says nothing ends with its context, which the client does not heed. Once the server has
// said something, the connection is everybody's.
func TestContextEndsDuringADial(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says  string
		heeds bool
	}{
		"silent":  {"", true},
		"answers": {"+OK", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer there.Close()
				tracker := conntrack.New(func() bool { return false })
				option := tracker.Wrap(
					rueidis.ClientOption{DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn,
						error) {
						return here, nil
					}})
				ctx, cancel := context.WithCancel(t.Context())
				conn, err := option.DialCtxFn(ctx, "somewhere", &net.Dialer{}, nil)
				require.NoError(t, err)
				go func() { _, _ = there.Write([]byte(test.says)) }()
				answer := make([]byte, 8)
				time.AfterFunc(time.Second, cancel)
				time.AfterFunc(time.Minute, func() { _ = conn.SetReadDeadline(time.Now()) })
				for err == nil {
					_, err = conn.Read(answer)
				}
				if test.heeds {
					require.ErrorIs(t, err, io.ErrClosedPipe)
				} else {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				}
				require.NoError(t, conn.Close())
			})
		})
	}
}

// A context that has ended when the connection comes closes it.
func TestContextEndsBeforeTheConnectionComes(t *testing.T) {
	t.Parallel()
	var p pipes
	option := conntrack.New(func() bool { return false }).Wrap(rueidis.ClientOption{DialCtxFn: p.dial})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	conn, err := option.DialCtxFn(ctx, "somewhere", &net.Dialer{}, nil)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// A dial ends with the time-out of the dialler, whatever its context, and sooner while calls wait for it that
// heed none: each time twice as late, until one comes up. Until it has an answer, the client dials.
func TestTimeOutOfADial(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"the network is silent": false, "the server says nothing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				waited := false
				tracker := conntrack.New(func() bool { return waited })
				option := tracker.Wrap(rueidis.ClientOption{
					DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
						if !silent && address == "silent" {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						here, there := net.Pipe()
						if address != "silent" {
							go func() { _, _ = there.Write([]byte("+OK")) }()
						}
						return here, nil
					},
				})
				dial := func(address string) time.Duration {
					began := time.Now()
					conn, err := option.DialCtxFn(t.Context(), address, &net.Dialer{Timeout: 3 * time.Second}, nil)
					if err == nil {
						require.False(t, tracker.Serves(0))
						_, err = conn.Read(make([]byte, 8))
						defer conn.Close()
					}
					require.Equal(t, address != "silent", err == nil)
					require.Equal(t, address != "silent", tracker.Serves(0), "the next call dials")
					return time.Since(began)
				}
				require.Equal(t, 3*time.Second, dial("silent"))
				require.Zero(t, dial("well"))
				waited = true
				for _, want := range []time.Duration{700, 1400, 2800, 3000, 3000} {
					require.Equal(t, want*time.Millisecond, dial("silent"))
				}
				require.Zero(t, dial("well"))
				require.Equal(t, 700*time.Millisecond, dial("silent"))
				time.Sleep(6 * time.Second)
				require.True(t, tracker.Serves(0), "nobody has for a while")
			})
		})
	}
}

// An address serves once it has as many connections as calls use, all of them answered, until one is lost.
func TestServes(t *testing.T) {
	t.Parallel()
	tracker := conntrack.New(func() bool { return false })
	var there []net.Conn
	option := tracker.Wrap(rueidis.ClientOption{
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			conn, other := net.Pipe()
			there = append(there, other)
			return conn, nil
		},
	})
	dial := func(address string) net.Conn {
		conn, err := option.DialCtxFn(t.Context(), address, &net.Dialer{}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	answer := func(conn net.Conn) {
		go func() { _, _ = there[len(there)-1].Write([]byte("+OK")) }()
		_, err := conn.Read(make([]byte, 8))
		require.NoError(t, err)
	}
	answer(dial("sentinel"))
	first := dial("server")
	answer(first)
	require.False(t, tracker.Serves(2), "two of different addresses")
	second := dial("server")
	require.False(t, tracker.Serves(2), "it was not answered")
	answer(second)
	require.True(t, tracker.Serves(2))
	require.False(t, tracker.Serves(3))
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	require.False(t, tracker.Serves(2))
	answer(dial("server"))
	require.True(t, tracker.Serves(2))
}

// valueBreaks is a context whose Value panics when it is called for the nth time.
type valueBreaks struct {
	context.Context
	left atomic.Int32
}

func (c *valueBreaks) Value(key any) any {
	if c.left.Add(-1) == 0 {
		panic("the context is broken")
	}
	return c.Context.Value(key)
}

// A dial that a panic ends is over, and counted once.
func TestServesAfterAPanic(t *testing.T) {
	t.Parallel()
	for n := range int32(8) {
		synctest.Test(t, func(t *testing.T) {
			tracker := conntrack.New(func() bool { return true })
			option := tracker.Wrap(rueidis.ClientOption{
				DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					if address == "silent" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					conn, _ := net.Pipe()
					return conn, nil
				},
			})
			parent, cancel := context.WithCancel(t.Context())
			ctx := &valueBreaks{Context: parent}
			ctx.left.Store(n + 1)
			if conn, err := option.DialCtxFn(ctx, "well", &net.Dialer{Timeout: time.Second}, nil); err == nil {
				func() {
					defer func() { _ = recover() }()
					_ = conn.Close()
				}()
			}
			cancel()
			time.Sleep(time.Minute)
			require.True(t, tracker.Serves(0))
			go func() { _, _ = option.DialCtxFn(t.Context(), "silent", &net.Dialer{Timeout: time.Second}, nil) }()
			synctest.Wait()
			require.False(t, tracker.Serves(0), "one is under way, after call %d", n+1)
			time.Sleep(time.Minute)
		})
	}
}

// A client that closes what it has dialled waits for nothing.
func TestCloseOfATidyClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		tracker := conntrack.New(func() bool { return false })
		option := tracker.Wrap(rueidis.ClientOption{DialCtxFn: p.dial})
		first, second := dialWith(t, option), dialWith(t, option)
		require.NoError(t, first.Close())
		require.NoError(t, first.Close(), "rueidis closes some twice")
		p.requireClosed(t, true, false)
		start := time.Now()
		tracker.Close(client(func() { _ = second.Close() }), limit)
		require.Equal(t, start, time.Now())
		p.requireClosed(t, true, true)
	})
}

// A cluster's client closes in the background: Close waits for its connections.
func TestCloseWaitsForTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		tracker := conntrack.New(func() bool { return false })
		conn := dialWith(t, tracker.Wrap(rueidis.ClientOption{DialCtxFn: p.dial}))
		start := time.Now()
		tracker.Close(client(func() { time.AfterFunc(limit/2, func() { _ = conn.Close() }) }), limit)
		require.Equal(t, start.Add(limit/2), time.Now())
		p.requireClosed(t, true)
	})
}

// What the client has forgotten is closed when the limit is over.
func TestCloseOfAForgottenConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		tracker := conntrack.New(func() bool { return false })
		option := tracker.Wrap(rueidis.ClientOption{DialCtxFn: p.dial})
		dialWith(t, option)
		dialWith(t, option)
		start := time.Now()
		tracker.Close(client(func() {}), limit)
		require.Equal(t, start.Add(limit), time.Now())
		p.requireClosed(t, true, true)
	})
}

// A client whose Close waits for a reply gets the end of its connections after limit.
func TestCloseOfASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		tracker := conntrack.New(func() bool { return false })
		conn := dialWith(t, tracker.Wrap(rueidis.ClientOption{DialCtxFn: p.dial}))
		start := time.Now()
		tracker.Close(client(func() { _, _ = conn.Read(make([]byte, 1)) }), limit)
		require.Equal(t, start.Add(limit), time.Now())
		p.requireClosed(t, true)
	})
}

// A client whose Close does not return is left after twice the limit.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		tracker := conntrack.New(func() bool { return false })
		dialWith(t, tracker.Wrap(rueidis.ClientOption{DialCtxFn: p.dial}))
		start, release := time.Now(), make(chan struct{})
		defer close(release)
		tracker.Close(client(func() { <-release }), limit)
		require.Equal(t, start.Add(2*limit), time.Now())
		p.requireClosed(t, true)
	})
}

// A dial that ends after Close leaves no connection, whether it heeds its context or not.
func TestDialDuringClose(t *testing.T) {
	t.Parallel()
	for name, heeds := range map[string]bool{"heeds its context": true, "does not": false} {
		for how, end := range map[string]func(*conntrack.Tracker){
			"close": func(tracker *conntrack.Tracker) { tracker.Close(client(func() {}), limit) },
			"abort": (*conntrack.Tracker).Abort,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var p pipes
					arrive := make(chan struct{})
					tracker := conntrack.New(func() bool { return false })
					option := tracker.Wrap(rueidis.ClientOption{
						DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer,
							security *tls.Config) (net.Conn, error) {
							if heeds {
								<-ctx.Done()
								return nil, ctx.Err()
							}
							<-arrive
							return p.dial(ctx, address, dialer, security)
						},
					})
					failed := make(chan error)
					go func() {
						_, err := option.DialCtxFn(t.Context(), "somewhere", &net.Dialer{}, nil)
						failed <- err
					}()
					synctest.Wait()
					end(tracker)
					close(arrive)
					require.ErrorIs(t, <-failed, rueidis.ErrClosing)
					p.requireClosed(t, true)
					_, err := option.DialCtxFn(t.Context(), "somewhere", &net.Dialer{}, nil)
					require.ErrorIs(t, err, rueidis.ErrClosing, "afterwards")
				})
			})
		}
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		tracker := conntrack.New(func() bool { return false })
		dialWith(t, tracker.Wrap(rueidis.ClientOption{DialCtxFn: p.dial}))
		tracker.Abort()
		p.requireClosed(t, true)
		tracker.Abort() // twice is fine
	})
}

// A dial that fails by itself, or whose caller gives up, fails as it would without a Tracker.
func TestFailedDial(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	option := conntrack.New(func() bool { return false }).Wrap(rueidis.ClientOption{
		DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if address == "refused" {
				return nil, refused
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	})
	_, err := option.DialCtxFn(t.Context(), "refused", &net.Dialer{}, nil)
	require.ErrorIs(t, err, refused)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = option.DialCtxFn(ctx, "silent", &net.Dialer{}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// The option's own way of dialling is used, in the order in which rueidis looks.
func TestWrapDialsAsTold(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var p pipes
	var used string
	withContext := func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn,
		error) {
		used = "DialCtxFn"
		return p.dial(ctx, address, dialer, security)
	}
	without := func(address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error) {
		used = "DialFn"
		return p.dial(context.Background(), address, dialer, security)
	}
	for want, option := range map[string]rueidis.ClientOption{
		"DialCtxFn": {DialCtxFn: withContext, DialFn: without},
		"DialFn":    {DialFn: without},
		"":          {},
	} {
		used = ""
		tracker := conntrack.New(func() bool { return false })
		wrapped := tracker.Wrap(option)
		require.Nil(t, wrapped.DialFn)
		_, err := wrapped.DialCtxFn(t.Context(), listener.Addr().String(), &net.Dialer{}, nil)
		require.NoError(t, err)
		require.Equal(t, want, used)
		tracker.Abort()
	}
}

// breaking is a context whose Err panics once it is broken.
type breaking struct {
	context.Context
	broken atomic.Bool
}

func (b *breaking) Err() error {
	if b.broken.Load() {
		panic("context")
	}
	return b.Context.Err()
}

// Code of the user's that panics or ends its goroutine during a dial is an error to the client, and leaves no
// connection open.
func TestUserCodeEndsADial(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end     func(ctx *breaking)
		text    string
		dialled int
	}{
		"panic":   {func(*breaking) { panic("dial") }, "connecting: dial", 0},
		"Goexit":  {func(*breaking) { runtime.Goexit() }, "connecting", 0},
		"context": {func(ctx *breaking) { ctx.broken.Store(true) }, "connecting: context", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pipes
			ctx, tracker := &breaking{Context: t.Context()}, conntrack.New(func() bool { return false })
			option := tracker.Wrap(rueidis.ClientOption{
				DialCtxFn: func(dialling context.Context, address string, dialer *net.Dialer,
					security *tls.Config) (net.Conn, error) {
					test.end(ctx)
					return p.dial(dialling, address, dialer, security)
				},
			})
			_, err := option.DialCtxFn(ctx, "somewhere", &net.Dialer{}, nil)
			require.ErrorContains(t, err, test.text)
			require.Len(t, p.dialled, test.dialled)
			p.requireClosed(t, true)
			tracker.Close(client(func() {}), limit)
		})
	}
}
