package rlocktest_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

func TestReadOnlyScriptIsCached(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, writer := newClient(t, s), newClient(t, s)
	require.NoError(t, do(t, writer, "SET", "k", "old").Error())
	read := func() rueidis.RedisResult {
		return reader.DoCache(t.Context(), reader.B().EvalRo().
			Script("return redis.call('GET', KEYS[1])").Numkeys(1).Key("k").Cache(), time.Hour)
	}
	require.NoError(t, read().Error())
	require.True(t, read().IsCacheHit())
	require.NoError(t, do(t, writer, "SET", "k", "new").Error())
	require.Eventually(t, func() bool {
		got, err := read().ToString()
		return err == nil && got == "new"
	}, soon, time.Millisecond)
}

func TestCacheTTL(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c := newClient(t, s)
	require.NoError(t, do(t, c, "SET", "k", "v", "PX", "60000").Error())
	// The client counts down from when it got the reply, so after a slow reply it
	// counts more than the key has left, but not more than it had.
	had, err := do(t, c, "PTTL", "k").AsInt64()
	require.NoError(t, err)
	for _, hit := range []bool{false, true} {
		r := cached(t, c, "k")
		require.NoError(t, r.Error())
		require.Equal(t, hit, r.IsCacheHit())
		pttl := r.CachePTTL()
		require.LessOrEqual(t, pttl, had)
		require.Positive(t, pttl)
		had = pttl
	}
}

func TestMultiKeyReads(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, writer := newClient(t, s), newClient(t, s)
	require.NoError(t, do(t, writer, "MSET", "a", "1", "b", "2").Error())
	read := func() []string {
		values, err := reader.DoCache(t.Context(), reader.B().Mget().Key("a", "b").Cache(), time.Hour).AsStrSlice()
		require.NoError(t, err)
		return values
	}
	require.Equal(t, []string{"1", "2"}, read())
	require.NoError(t, do(t, writer, "MSET", "x", "3", "b", "4").Error())
	require.Eventually(t, func() bool { return read()[1] == "4" }, soon, time.Millisecond)
	require.Equal(t, "1", read()[0])
}

func TestManyReadsAtOnce(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, writer := newClient(t, s), newClient(t, s)
	require.NoError(t, do(t, writer, "MSET", "a", "1", "b", "2").Error())
	read := func() (values []string) {
		for _, r := range reader.DoMultiCache(t.Context(),
			rueidis.CT(reader.B().Get().Key("a").Cache(), time.Hour),
			rueidis.CT(reader.B().Get().Key("b").Cache(), time.Hour)) {
			values = append(values, text(r))
		}
		return values
	}
	require.Equal(t, []string{"1", "2"}, read())
	require.NoError(t, do(t, writer, "SET", "b", "3").Error())
	require.Eventually(t, func() bool { return read()[1] == "3" }, soon, time.Millisecond)
}

func TestDefaultOptions(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c := newClientWith(t, rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	require.NoError(t, do(t, c, "SET", "k", "old").Error())
	warm(t, c, "k")
	require.NoError(t, do(t, c, "SET", "k", "new").Error())
	require.Eventually(t, func() bool {
		got, err := cached(t, c, "k").ToString()
		return err == nil && got == "new"
	}, soon, time.Millisecond)
}

func TestSelectedDatabase(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	o := s.Option()
	o.SelectDB = 3
	c := newClientWith(t, o)
	require.NoError(t, do(t, c, "SET", "k", "old", "PX", "60000").Error())
	warm(t, c, "k")
	s.Redis().FastForward(time.Hour)
	require.Eventually(t, func() bool { return rueidis.IsRedisNil(cached(t, c, "k").Error()) }, soon,
		time.Millisecond)
}
