package interrupt

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// loneTest has a client whose calls are counted: those on the shared connections, and those on connections of
// their own.
type loneTest struct {
	*Client
	shared, own *counting
	conn        *deadlined
	dialled     int
	refused     error // of dials
	closed      atomic.Int32
}

// counting is a client whose calls take some time.
type counting struct {
	rueidis.Client
	calls atomic.Int32
	takes time.Duration
	fails error
	late  func() <-chan time.Time // when the deadline of the connection is over
}

func (c *counting) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

func (c *counting) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	c.calls.Add(1)
	if c.late != nil && ctx.Done() != nil {
		panic("the client would read in a goroutine")
	}
	var late <-chan time.Time
	if c.late != nil {
		late = c.late()
	}
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	case <-late:
		return rueidis.NewErrorResult(errors.New("i/o timeout"))
	}
	if c.fails != nil {
		return rueidis.NewErrorResult(c.fails)
	}
	return rueidis.RedisResult{}
}

func (c *counting) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(commands))
	for i := range results {
		results[i] = c.Do(ctx, commands[i])
	}
	return results
}

// deadlined is a connection that knows when its deadline is set.
type deadlined struct {
	net.Conn
	over chan time.Time
	once sync.Once
}

func (d *deadlined) SetDeadline(time.Time) error {
	d.once.Do(func() { close(d.over) })
	return nil
}

const trusted = time.Second

func newLoneTest() *loneTest {
	w := &loneTest{shared: &counting{takes: time.Millisecond}, own: &counting{takes: time.Millisecond}}
	w.own.late = func() <-chan time.Time { return w.conn.over }
	option := &rueidis.ClientOption{OnInvalidations: func([]rueidis.RedisMessage) {}}
	lone := NewLone(func(context.Context) (*Direct, error) {
		w.dialled++
		if w.refused != nil {
			return nil, w.refused
		}
		w.conn = &deadlined{over: make(chan time.Time)}
		return &Direct{w.own, w.conn, func() { w.closed.Add(1) }}, nil
	}, trusted)
	w.Client = Opened(w.shared, option, NewHealth(option, calm, time.Minute)).WithLone(lone)
	return w
}

// call makes calls, one after the other.
func (w *loneTest) call(n int) (err error) {
	for range n {
		err = w.Do(context.Background(), rueidis.Completed{}).NonRedisError()
		synctest.Wait()
	}
	return err
}

func (w *loneTest) wantCalls(t *testing.T, shared, own int) {
	t.Helper()
	require.Equal(t, [2]int{shared, own}, [2]int{int(w.shared.calls.Swap(0)), int(w.own.calls.Swap(0))})
}

func TestLoneCallsHaveAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLoneTest()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, w.call(enoughCalls))
		w.wantCalls(t, enoughCalls, 0)
		for range 10 {
			require.NoError(t, w.Do(ctx, rueidis.Completed{}).NonRedisError())
			require.NoError(t, w.DoMulti(ctx, rueidis.Completed{}, rueidis.Completed{})[1].NonRedisError())
		}
		w.wantCalls(t, 0, 30)
		require.Len(t, w.DoMulti(ctx, make([]rueidis.Completed, mostCommands+1)...), mostCommands+1)
		w.wantCalls(t, mostCommands+1, 0)

		// Others who come meanwhile share.
		var each sync.WaitGroup
		for range 10 {
			each.Go(func() { w.Do(ctx, rueidis.Completed{}) })
		}
		each.Wait()
		w.wantCalls(t, 9, 1)
		require.NoError(t, w.call(enoughCalls))
		w.wantCalls(t, enoughCalls-1, 1)
		require.Equal(t, 1, w.dialled)

		time.Sleep(2*trusted + 2*glance)
		require.EqualValues(t, 1, w.closed.Load(), "nobody has used it for long")
		require.NoError(t, w.call(enoughCalls))
		w.wantCalls(t, enoughCalls, 0)
		require.NoError(t, w.call(1))
		w.wantCalls(t, 0, 1)
		w.lone.GiveUp() // as if the client had to dial
		require.NoError(t, w.call(2))
		w.wantCalls(t, 1, 1)
		w.lone.mu.Lock()
		w.lone.stale = true // and once more, while this one is dialled
		w.lone.mu.Unlock()
		w.lone.connected(&Direct{w.own, w.conn, func() { w.closed.Add(1) }}, nil)
		synctest.Wait()
		require.EqualValues(t, 3, w.closed.Load())
		w.lone.Close()
		require.EqualValues(t, 4, w.closed.Load())
		require.NoError(t, w.call(2*enoughCalls))
		w.wantCalls(t, 2*enoughCalls, 0)
	})
}

func TestRareCallsHaveNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLoneTest()
		for range 2 * enoughCalls {
			require.NoError(t, w.call(1))
			time.Sleep(trusted + time.Millisecond)
		}
		w.wantCalls(t, 2*enoughCalls, 0)
		require.Zero(t, w.dialled)
	})
}

// The context of a call ends it, and the connection: its answer may still come.
func TestLoneCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLoneTest()
		for name, call := range map[string]func(ctx context.Context) rueidis.RedisResult{
			"one": func(ctx context.Context) rueidis.RedisResult { return w.Do(ctx, rueidis.Completed{}) },
			"two": func(ctx context.Context) rueidis.RedisResult {
				return w.DoMulti(ctx, rueidis.Completed{}, rueidis.Completed{})[1]
			},
		} {
			w.lone.pause, w.own.takes = 0, time.Millisecond
			require.NoError(t, w.call(2*enoughCalls), name)
			w.own.takes = time.Minute
			before := w.closed.Load()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Second, cancel)
			began := clock.Now()
			require.ErrorIs(t, call(ctx).NonRedisError(), context.Canceled, name)
			require.LessOrEqual(t, time.Duration(clock.Now()-began), 10*time.Second+glance, name)
			synctest.Wait()
			require.Equal(t, before+1, w.closed.Load(), name)
			require.NoError(t, w.call(1), name)
		}
		require.Zero(t, w.lone.underway.Load())
		w.own.calls.Store(0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, w.Do(ended, rueidis.Completed{}).NonRedisError(), context.Canceled)
		require.Zero(t, w.own.calls.Load())
	})
}

func TestFailedConnectionIsNotDialledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLoneTest()
		require.NoError(t, w.call(enoughCalls))
		w.own.fails = errors.New("reset by peer")
		require.ErrorIs(t, w.call(1), w.own.fails)
		synctest.Wait()
		require.EqualValues(t, 1, w.closed.Load())
		require.NoError(t, w.call(2*enoughCalls))
		require.Equal(t, 1, w.dialled)
		w.refused = errors.New("connection refused")
		time.Sleep(failedPause)
		require.NoError(t, w.call(2*enoughCalls))
		require.Equal(t, 2, w.dialled)
		w.refused, w.own.fails = nil, nil
		time.Sleep(failedPause)
		require.NoError(t, w.call(enoughCalls))
		require.Equal(t, 3, w.dialled)
		w.wantCalls(t, 6*enoughCalls, 1)
		require.NoError(t, w.call(1))
		w.wantCalls(t, 0, 1)
	})
}

// A call that code of the user's ends is not counted for ever, and no dial ends the process.
func TestUsersCodeDoesNotStopLoneCalls(t *testing.T) {
	w := newLoneTest()
	require.Panics(t, func() { w.Do(&panicking{context.Background()}, rueidis.Completed{}) })
	require.Zero(t, w.lone.underway.Load())
	for _, dial := range []func(context.Context) (*Direct, error){
		func(context.Context) (*Direct, error) { panic("the user's") },
		func(context.Context) (*Direct, error) { runtime.Goexit(); return nil, nil },
	} {
		l := NewLone(dial, trusted)
		l.dialing = true
		over := make(chan struct{})
		go func() { defer close(over); l.connect() }()
		<-over
		require.False(t, l.dialing)
		require.Nil(t, l.direct)
	}
}

type panicking struct{ context.Context }

func (*panicking) Done() <-chan struct{} { panic("the user's") }
