package wire_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// counting counts pipelines.
type counting struct {
	rueidis.Client
	pipelines atomic.Int64
}

func (c *counting) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.pipelines.Add(1)
	return c.Client.DoMulti(ctx, commands...)
}

// freeings are releases of so many claims, each of some keys.
func freeings(s *wire.Server, n, keys int) (all []*wire.Freeing) {
	for i := range n {
		var names []string
		for k := range keys {
			names = append(names, fmt.Sprint("k", i, " ", k))
		}
		c := s.All(names, false)
		all = append(all, &wire.Freeing{Claim: &c, Token: "token"})
	}
	return all
}

// A pipeline is for many keys, with queues and without, of sets too.
func TestPipelinesOfAReleaseOfMany(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode         wire.Mode
		claims, keys int
		want         int64
	}{
		{wire.Auto, 1000, 1, 2}, // the second is of those that had no such key
		{wire.Auto, 1000, 2, 2},
		{wire.Polling, 1000, 1, 1},
		{wire.Polling, 1000, 2, 1},
		{wire.Polling, 100, 100, 2},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			e := rlocktest.Start(t)
			inner, err := rueidis.NewClient(e.Option())
			require.NoError(t, err)
			t.Cleanup(inner.Close)
			require.NoError(t, gen.New().Load(t.Context(), inner))
			client := &counting{Client: inner}
			s := wire.NewServer(client, gen.New(redislua.WithoutRetry()), "p")
			s.Queues().Choose(c.mode)
			s.ReleaseEach(t.Context(), freeings(s, c.claims, c.keys))
			require.Equal(t, c.want, client.pipelines.Load())
		})
	}
}

// silent has no answers to pipelines.
type silent struct{ rueidis.Client }

func (silent) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
	all := make([]rueidis.RedisResult, len(commands))
	for i := range all {
		all[i] = rueidis.NewErrorResult(io.ErrUnexpectedEOF)
	}
	return all
}

// After a pipeline without an answer no other is sent: each would take as long.
func TestReleaseOfManyAtASilentServer(t *testing.T) {
	t.Parallel()
	_, inner, _ := start(t)
	s := wire.NewServer(silent{inner}, gen.New(redislua.WithoutRetry()), "p")
	s.Queues().Choose(wire.Polling)
	all := freeings(s, 400, 100)
	began := time.Now()
	s.ReleaseEach(t.Context(), all)
	require.Less(t, time.Since(began), 5*time.Second, "the client's time-out, and two seconds")
	for _, f := range all {
		require.ErrorIs(t, f.Err, io.ErrUnexpectedEOF)
	}
}
