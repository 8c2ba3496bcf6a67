package interrupt

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// deaf is a client that answers after a while. It heeds its context as little as rueidis does while it dials:
// it ends only when that does.
type deaf struct {
	rueidis.Client
	mode  rueidis.ClientMode // standalone, if empty
	takes time.Duration
	do    func(ctx context.Context)
	err   error

	now, most atomic.Int64 // calls at the same time
}

func (d *deaf) Mode() rueidis.ClientMode {
	return cmp.Or(d.mode, rueidis.ClientModeStandalone)
}

func (d *deaf) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	d.most.Store(max(d.most.Load(), d.now.Add(1)))
	defer d.now.Add(-1)
	if d.do != nil {
		d.do(ctx)
	}
	if d.takes > 0 {
		select {
		case <-ctx.Done():
			return rueidis.NewErrorResult(ctx.Err())
		case <-time.After(d.takes):
		}
	}
	if ctx.Err() != nil {
		return rueidis.NewErrorResult(ctx.Err())
	}
	return rueidis.NewErrorResult(d.err)
}

func (d *deaf) DoCache(ctx context.Context, _ rueidis.Cacheable, _ time.Duration) rueidis.RedisResult {
	return d.Do(ctx, rueidis.Completed{})
}

func (d *deaf) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(commands))
	if len(results) == 0 {
		return nil
	}
	result := d.Do(ctx, rueidis.Completed{})
	for i := range results {
		results[i] = result
	}
	clear(commands)
	return results
}

// each makes a call with each method, one after the other, and checks how each ends.
func each(t *testing.T, c *Client, ctx context.Context, want error) {
	t.Helper()
	require.ErrorIs(t, c.Do(ctx, rueidis.Completed{}).Error(), want)
	require.ErrorIs(t, c.DoCache(ctx, rueidis.Cacheable{}, time.Hour).Error(), want)
	results := c.DoMulti(ctx, make([]rueidis.Completed, 2)...)
	require.Len(t, results, 2)
	for _, r := range results {
		require.ErrorIs(t, r.Error(), want)
	}
	require.Empty(t, c.DoMulti(ctx))
}

func calm(int64) bool { return true }

func opened(client rueidis.Client, serves func(int64) bool) *Client {
	option := &rueidis.ClientOption{OnInvalidations: func([]rueidis.RedisMessage) {}, RingScaleEachConn: 3}
	return Opened(client, option, NewHealth(option, serves, 10*time.Second))
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(c rueidis.Client) *Client{
		"of the user": Of,
		"of Open, without pipelines": func(c rueidis.Client) *Client {
			option := &rueidis.ClientOption{DisableAutoPipelining: true}
			return Opened(c, option, NewHealth(option, calm, time.Second))
		},
		"of Open, which pipelines later": func(c rueidis.Client) *Client {
			return Opened(c, &rueidis.ClientOption{}, NewHealth(&rueidis.ClientOption{}, calm, time.Second))
		},
		"of Open, which dials": func(c rueidis.Client) *Client {
			return opened(c,
				func(int64) bool { return false })
		},
	} {
		for how, test := range map[string]struct {
			limit time.Duration // of the context; 0: it has no deadline
			takes time.Duration
			want  error
			after time.Duration
		}{
			"an answer": {takes: time.Second, want: rueidis.Nil, after: 3 * time.Second},
			"cancelled": {takes: time.Minute, want: context.Canceled, after: 10 * time.Second},
			"cancelled before a deadline": {limit: time.Hour, takes: time.Minute, want: context.Canceled,
				after: 10 * time.Second},
			"a deadline": {limit: 5 * time.Second, takes: time.Minute, want: context.DeadlineExceeded,
				after: 5 * time.Second},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(10*time.Second, cancel)
					if test.limit > 0 {
						limited, stop := context.WithTimeout(ctx, test.limit)
						defer stop()
						ctx = limited
					}
					began := time.Now()
					each(t, open(&deaf{takes: test.takes, err: rueidis.Nil}), ctx, test.want)
					require.Equal(t, test.after, time.Since(began))
					time.Sleep(10 * time.Second) // the client goes on with what nobody waits for
				})
			})
		}
	}
}

// A dial outlasts its caller, and nothing is sent then. Others whose dial has ended learn so, and not that a
// context had ended.
func TestCallOutlastsItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 1)
		client := Of(&deaf{do: func(ctx context.Context) {
			<-ctx.Done() // of a dial
			ended <- ctx.Err()
		}})
		began := time.Now()
		require.ErrorIs(t, client.Do(ctx, rueidis.Completed{}).Error(), context.DeadlineExceeded)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded, "what a command is told before it is sent")
		require.Equal(t, time.Second+rueidis.DefaultDialTimeout, time.Since(began))

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_ = client.Do(ctx, rueidis.Completed{})
		client.End()
		<-ended
		require.Equal(t, time.Second, time.Since(began), "the Locker is closed")
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		for _, client := range []*Client{Of(&deaf{err: err}), opened(&deaf{err: err}, calm)} {
			for _, ctx := range []context.Context{context.Background(), t.Context()} {
				require.NotErrorIs(t, client.Do(ctx, rueidis.Completed{}).Error(), err)
				require.NotErrorIs(t, client.DoCache(ctx, rueidis.Cacheable{}, time.Hour).Error(), err)
				require.NotErrorIs(t, client.DoMulti(ctx, rueidis.Completed{})[0].Error(), err)
			}
			for _, got := range []error{
				client.Do(ctx, rueidis.Completed{}).Error(), client.DoMulti(ctx, rueidis.Completed{})[0].Error(),
				client.DoCache(ctx, rueidis.Cacheable{}, 0).Error(),
			} {
				require.NotErrorIs(t, got, err)
				require.ErrorContains(t, got, "another call of the client was given up: "+err.Error())
			}
		}
	}
}

// A call of a client of Open has no goroutine while the client is well, and one after it had no answer.
func TestCallsWithoutAGoroutine(t *testing.T) {
	var inside context.Context
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		underway := false
		server := &deaf{do: func(ctx context.Context) { inside = ctx }}
		client := opened(server, func(int64) bool { return !underway })
		direct := func(want bool, about string) {
			t.Helper()
			for range 2 {
				each(t, client, ctx, nil)
				require.Equal(t, want, inside == ctx, about)
			}
		}
		direct(true, "all is well")
		underway = true
		direct(false, "the client dials")
		underway = false
		direct(true, "it has dialled")
		server.err = errors.New("reset by peer")
		for range 4 {
			_ = client.Do(ctx, rueidis.Completed{})
		}
		server.err = nil
		direct(false, "as many calls have no answer as fit in half a ring")
		time.Sleep(19 * time.Second)
		direct(false, "some may be in it still")
		time.Sleep(2 * time.Second)
		direct(true, "that is long ago")
		ofCluster := &deaf{mode: rueidis.ClientModeCluster, do: server.do}
		each(t, opened(ofCluster, calm), ctx, nil)
		require.NotEqual(t, ctx, inside, "any call may be the first to a node")

		const calls = 20
		server.takes = time.Minute
		var group sync.WaitGroup
		var without atomic.Int64
		server.do = func(with context.Context) {
			if with == ctx {
				without.Add(1)
			}
		}
		for range calls {
			group.Go(func() { _ = client.Do(ctx, rueidis.Completed{}) })
		}
		group.Wait()
		require.EqualValues(t, 4, without.Load(), "as many as fit in half a ring")
	})
	background := opened(&deaf{}, func(int64) bool { return false })
	require.Zero(t, testing.AllocsPerRun(10,
		func() { _ = background.Do(context.Background(), rueidis.Completed{}) }))
}

// While a node is silent, few calls stay there, and those of other nodes go on.
func TestAbandonedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &deaf{mode: rueidis.ClientModeCluster, do: func(ctx context.Context) { <-ctx.Done() }}
		client := Of(server)
		other := &client.lanes[len(client.lanes)-1]
		require.NotSame(t, other, client.laneOf(0))
		require.Same(t, client.laneOf(0), client.laneOf(1<<14), "a command without a key")
		began := time.Now()
		call := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return client.Do(ctx, rueidis.Completed{}).Error()
		}
		for range 3 * mostOfOthers {
			require.ErrorIs(t, call(), context.DeadlineExceeded)
		}
		require.Equal(t, 3*mostOfOthers*20*time.Millisecond, time.Since(began))
		require.EqualValues(t, mostOfOthers, server.most.Load())
		require.NoError(t, other.enter(t.Context()))

		var waiting sync.WaitGroup
		for range 2 * mostOfOthers { // all go on when those that have stayed end
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_ = client.laneOf(0).enter(ctx)
				require.NoError(t, ctx.Err())
			})
		}
		waiting.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, server.now.Load())
		require.Empty(t, client.abandoned.calls)
		require.Zero(t, client.lanes[0].abandoned.Load())
	})
}

// broken is a context with a value, and nothing that package context asks for.
type broken struct{ context.Context }

func (b broken) Value(key any) any {
	if key != "name" {
		panic("the context is broken")
	}
	return "value"
}

// The client may derive contexts, and let go of them, without code of the user's.
func TestDerivedContextsAskNoUser(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := &deaf{do: func(ctx context.Context) {
		require.Equal(t, "value", ctx.Value("name"))
		derived, cancel := context.WithTimeout(ctx, time.Hour)
		stop := context.AfterFunc(derived, func() {})
		stop()
		cancel()
	}}
	for name, client := range map[string]*Client{
		"with a goroutine":    Of(server),
		"without one":         opened(server, calm),
		"whose dials are own": Opened(server, &rueidis.ClientOption{DisableAutoPipelining: true}, nil),
	} {
		require.NotPanics(t, func() { each(t, client, broken{ctx}, nil) }, name)
	}
}

// A hook may keep a context that it has derived. That ends with the context of its call, and with no other.
func TestContextsThatHooksKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var kept []context.Context
		client := Of(&deaf{takes: time.Second, do: func(ctx context.Context) {
			derived, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Hour, cancel)
			kept = append(kept, derived)
		}})
		long, cancel := context.WithCancel(t.Context())
		require.NoError(t, client.Do(long, rueidis.Completed{}).Error())
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		require.ErrorIs(t, client.Do(short, rueidis.Completed{}).Error(), context.DeadlineExceeded)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, kept[0].Err())
		require.Error(t, kept[1].Err())
		cancel()
		synctest.Wait()
		require.Error(t, kept[0].Err())
		client.End()
		time.Sleep(time.Hour)
	})
}

// A client of which it is not sure that it heeds contexts has no Health.
func TestHealthOfOptions(t *testing.T) {
	t.Parallel()
	told := func([]rueidis.RedisMessage) {}
	for name, test := range map[string]struct {
		option rueidis.ClientOption
		want   bool
	}{
		"it is told of changes":         {rueidis.ClientOption{OnInvalidations: told}, true},
		"it always pipelines":           {rueidis.ClientOption{AlwaysPipelining: true}, true},
		"it pipelines later":            {rueidis.ClientOption{}, false},
		"it is told nothing with RESP2": {rueidis.ClientOption{OnInvalidations: told, AlwaysRESP2: true}, false},
		"nor without a cache":           {rueidis.ClientOption{OnInvalidations: told, DisableCache: true}, false},
		"it never pipelines": {
			rueidis.ClientOption{OnInvalidations: told, DisableAutoPipelining: true, AlwaysPipelining: true}, false,
		},
		"it is sent to another server": {
			rueidis.ClientOption{OnInvalidations: told, Standalone: rueidis.StandaloneOption{EnableRedirect: true}},
			false,
		},
	} {
		require.Equal(t, test.want, NewHealth(&test.option, calm, time.Second) != nil, name)
	}
}

// Calls that return when their callers leave are told to end, and what was told so is not used again.
func TestCallsThatReturnAsTheirCallerLeaves(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*Client{
		"whose dials end at once": Opened(&deaf{takes: time.Second},
			&rueidis.ClientOption{DisableAutoPipelining: true}, nil),
		"of the user": Of(&deaf{takes: time.Second}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 1000 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_ = client.Do(ctx, rueidis.Completed{})
					cancel()
				}
				client.End()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, client.abandoned.calls)
			})
		})
	}
}

// What user code in the client does to its goroutine, it does to the caller's.
func TestUserCodeThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cause := errors.New("user code")
	calls := func(c *Client) []func() {
		return []func(){
			func() { _ = c.Do(ctx, rueidis.Completed{}) },
			func() { _ = c.DoCache(ctx, rueidis.Cacheable{}, 0) },
			func() { _ = c.DoMulti(ctx, rueidis.Completed{}) },
		}
	}
	for _, call := range calls(Of(&deaf{do: func(context.Context) { panic(cause) }})) {
		require.PanicsWithValue(t, cause, call)
	}
	for _, call := range calls(Of(&deaf{do: func(context.Context) { runtime.Goexit() }})) {
		ended, returned := make(chan struct{}), false
		go func() {
			defer close(ended)
			call()
			returned = true
		}()
		<-ended
		require.False(t, returned)
	}
}
