package interrupt

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// deaf is a client that heeds no context, and answers after a while.
type deaf struct {
	rueidis.Client
	takes time.Duration
	do    func()
}

func (d *deaf) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	time.Sleep(d.takes)
	d.do()
	return rueidis.NewErrorResult(rueidis.Nil)
}

func (d *deaf) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(commands))
	for i, c := range commands {
		results[i] = d.Do(ctx, c)
	}
	clear(commands)
	return results
}

var twoCommands = make([]rueidis.Completed, 2)

// both makes a call with each of the two methods, and checks how each of its commands ends.
func both(t *testing.T, c rueidis.Client, ctx context.Context, want error) {
	t.Helper()
	require.ErrorIs(t, c.Do(ctx, rueidis.Completed{}).Error(), want)
	results := c.DoMulti(ctx, twoCommands...)
	require.Len(t, results, 2)
	for _, r := range results {
		require.ErrorIs(t, r.Error(), want)
	}
}

func nothing() {}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	pooled := &rueidis.ClientOption{DisableAutoPipelining: true}
	silent := &rueidis.ClientOption{}
	for name, test := range map[string]struct {
		option *rueidis.ClientOption
		limit  time.Duration // of the context; 0: it has no deadline
		cancel bool
		takes  time.Duration
		want   error
		after  time.Duration
	}{
		"an answer":                          {option: pooled, cancel: true, takes: time.Second, want: rueidis.Nil, after: 3 * time.Second},
		"cancelled":                          {option: pooled, cancel: true, takes: time.Minute, want: context.Canceled, after: 10 * time.Second},
		"cancelled before a deadline":        {option: pooled, limit: time.Hour, cancel: true, takes: time.Minute, want: context.Canceled, after: 10 * time.Second},
		"a deadline":                         {option: pooled, limit: 5 * time.Second, takes: time.Minute, want: context.DeadlineExceeded, after: 5 * time.Second},
		"alone, cancelled before a deadline": {option: silent, limit: time.Hour, cancel: true, takes: time.Minute, want: context.Canceled, after: 10 * time.Second},
		"alone, without a deadline":          {option: silent, cancel: true, takes: time.Minute, want: rueidis.Nil, after: 3 * time.Minute}, // the client heeds that
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.limit > 0 {
					limited, stop := context.WithTimeout(ctx, test.limit)
					defer stop()
					ctx = limited
				}
				if test.cancel {
					cancelled, stop := context.WithCancel(ctx)
					time.AfterFunc(10*time.Second, stop)
					ctx = cancelled
				}
				began := time.Now()
				both(t, wrap(&deaf{takes: test.takes, do: nothing}, test.option), ctx, test.want)
				require.Equal(t, test.after, time.Since(began))
				time.Sleep(3 * time.Minute) // the client goes on with what nobody waits for
			})
		})
	}
}

// A client that heeds every context is used as it is.
func TestClientThatHeedsContexts(t *testing.T) {
	t.Parallel()
	client := &deaf{}
	told := func([]rueidis.RedisMessage) {}
	require.Same(t, client, wrap(client, &rueidis.ClientOption{OnInvalidations: told}))
	require.Same(t, client, wrap(client, &rueidis.ClientOption{AlwaysPipelining: true}))
}

// A call without a context that can end, as those that go together have, costs no goroutine.
func TestCallThatNobodyCanCancel(t *testing.T) {
	c := wrap(&deaf{do: nothing}, &rueidis.ClientOption{DisableAutoPipelining: true})
	var result rueidis.RedisResult
	require.Zero(t, testing.AllocsPerRun(10, func() { result = c.Do(context.Background(), rueidis.Completed{}) }))
	require.ErrorIs(t, result.Error(), rueidis.Nil)
}

// What a client's own way of dialling does to its goroutine, it does to the caller's, or says so.
func TestUserCodeThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pooled := &rueidis.ClientOption{DisableAutoPipelining: true}
	cause := errors.New("user code")
	c := wrap(&deaf{do: func() { panic(cause) }}, pooled)
	require.PanicsWithValue(t, cause, func() { c.Do(ctx, rueidis.Completed{}) })
	require.PanicsWithValue(t, cause, func() { c.DoMulti(ctx, twoCommands...) })
	both(t, wrap(&deaf{do: runtime.Goexit}, pooled), ctx, errEnded)
}
