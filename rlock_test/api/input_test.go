package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Bad input is refused before anything is sent.
func TestBadInput(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	locker := env.NewLocker(t, client)
	held, err := locker.Acquire(t.Context(), "held")
	require.NoError(t, err)
	ctx := t.Context()
	var none context.Context
	fn := func(context.Context, *rlock.Lock) error { return nil }
	acquire := func(opts ...rlock.Option) error {
		_, err := locker.Acquire(ctx, "k", opts...)
		return err
	}
	of := func(_ any, err error) error { return err }

	for name, test := range map[string]struct {
		call func() error
		is   error
	}{
		"empty key":        {func() error { return of(locker.Acquire(ctx, "")) }, rlock.ErrInvalid},
		"empty key, try":   {func() error { return of(locker.TryAcquire(ctx, "")) }, rlock.ErrInvalid},
		"empty key, check": {func() error { return of(locker.Check(ctx, "")) }, rlock.ErrInvalid},
		"empty key, inspect": {func() error { return of(env.Admin(locker).Inspect(ctx, "")) },
			rlock.ErrInvalid},
		"empty key in a set": {func() error { return of(locker.AcquireAll(ctx, []string{"a", ""})) },
			rlock.ErrInvalid},
		"no keys": {func() error { return of(locker.AcquireAll(ctx, nil)) }, rlock.ErrInvalid},
		"duplicate keys": {func() error { return of(locker.TryAcquireAll(ctx, []string{"a", "b", "a"})) },
			rlock.ErrDuplicateKey},
		"duplicate keys, do": {func() error { return locker.DoAll(ctx, []string{"a", "a"}, fn) },
			rlock.ErrDuplicateKey},
		"zero TTL":     {func() error { return acquire(rlock.WithTTL(0)) }, rlock.ErrInvalid},
		"negative TTL": {func() error { return acquire(rlock.WithTTL(-time.Second)) }, rlock.ErrInvalid},
		"TTL below 1 ms": {func() error { return acquire(rlock.WithTTL(time.Microsecond)) },
			rlock.ErrInvalid},
		"TTL of a fraction": {func() error { return acquire(rlock.WithTTL(1500 * time.Microsecond)) },
			rlock.ErrInvalid},
		"zero TTL, extend": {func() error { return held.Extend(ctx, 0) }, rlock.ErrInvalid},
		"fraction, extend": {func() error { return held.Extend(ctx, time.Second+time.Nanosecond) },
			rlock.ErrInvalid},
		"empty owner": {func() error { return acquire(rlock.WithOwner("")) }, rlock.ErrInvalid},
		"long owner": {func() error { return acquire(rlock.WithOwner(strings.Repeat("x", 257))) },
			rlock.ErrInvalid},
		"owner with a line break": {func() error { return acquire(rlock.WithOwner("a\nb")) }, rlock.ErrInvalid},
		"owner that turns round":  {func() error { return acquire(rlock.WithOwner("a\u202eb")) }, rlock.ErrInvalid},
		"owner not in UTF-8":      {func() error { return acquire(rlock.WithOwner("a\xff")) }, rlock.ErrInvalid},
		"owner and token": {func() error { return acquire(rlock.WithOwner("a"), rlock.WithToken("t")) },
			rlock.ErrInvalid},
		"empty token": {func() error { return acquire(rlock.WithToken("")) }, rlock.ErrInvalid},
		"nil option":  {func() error { return acquire(nil) }, rlock.ErrInvalid},
		"empty retry": {func() error { return acquire(rlock.WithRetry(rlock.Retry{})) },
			rlock.ErrInvalid},
		"retry without a pause": {func() error { return acquire(rlock.WithRetry(rlock.Fixed(0))) },
			rlock.ErrInvalid},
		"retry upside down": {func() error { return acquire(rlock.WithRetry(rlock.Exponential(2, 1))) },
			rlock.ErrInvalid},
		"retry without attempts": {func() error { return acquire(rlock.WithRetry(rlock.Fixed(1).MaxAttempts(0))) },
			rlock.ErrInvalid},
		"retry without time": {func() error { return acquire(rlock.WithRetry(rlock.Fixed(1).MaxTime(0))) },
			rlock.ErrInvalid},
		"nil retry function": {func() error { return acquire(rlock.WithRetry(rlock.RetryFunc(nil))) },
			rlock.ErrInvalid},
		"cache TTL": {func() error { return of(rlock.New(client, rlock.WithCacheTTL(0))) },
			rlock.ErrInvalid},
		"negative turn": {func() error { return of(rlock.New(client, rlock.WithTurn(-1))) },
			rlock.ErrInvalid},
		"extend what has no end": {func() error {
			return acquire(rlock.WithTTL(rlock.NoExpiry),
				rlock.WithAutoExtend(true))
		}, rlock.ErrInvalid},
		"nil context": {func() error { return of(locker.Acquire(none, "k")) }, rlock.ErrInvalid},
		"nil context, set": {func() error { return of(locker.AcquireAll(none, []string{"k"})) },
			rlock.ErrInvalid},
		"nil context, check": {func() error { return of(locker.Check(none, "k")) }, rlock.ErrInvalid},
		"nil context, inspect": {func() error { return of(env.Admin(locker).Inspect(none, "k")) },
			rlock.ErrInvalid},
		"nil context, extend":     {func() error { return held.Extend(none, time.Second) }, rlock.ErrInvalid},
		"nil context, release":    {func() error { return held.Release(none) }, rlock.ErrInvalid},
		"nil context, lock check": {func() error { return held.Verify(none) }, rlock.ErrInvalid},
		"nil context, do":         {func() error { return locker.Do(none, "k", fn) }, rlock.ErrInvalid},
		"nil function":            {func() error { return locker.Do(ctx, "k", nil) }, rlock.ErrInvalid},
		"nil function, set": {func() error { return locker.DoAll(ctx, []string{"k"}, nil) },
			rlock.ErrInvalid},
		"nil client": {func() error { return of(rlock.New(nil)) }, rlock.ErrInvalid},
		"nil Invalidations": {func() error { return of(rlock.New(client, rlock.WithInvalidations(nil))) },
			rlock.ErrInvalid},
		"zero Invalidations": {func() error {
			return of(
				rlock.New(client, rlock.WithInvalidations(&rlock.Invalidations{})))
		}, rlock.ErrInvalid},
		"zero Invalidations, open": {func() error {
			return of(rlock.Open(server.Option(), rlock.WithInvalidations(&rlock.Invalidations{})))
		}, rlock.ErrInvalid},
		"nil default": {func() error { return of(rlock.New(client, nil)) }, rlock.ErrInvalid},
		"bad default": {func() error { return of(rlock.New(client, rlock.WithTTL(-1))) }, rlock.ErrInvalid},
		"bad default, open": {func() error { return of(rlock.Open(server.Option(), rlock.WithTTL(-1))) },
			rlock.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			sent := server.ScriptCalls(t)
			var err error
			require.NotPanics(t, func() { err = test.call() })
			require.ErrorIs(t, err, test.is)
			require.ErrorIs(t, err, rlock.ErrInvalid)
			require.Equal(t, sent, server.ScriptCalls(t), "nothing is sent")
			require.NoError(t, held.Err())
		})
	}
	require.NoError(t, held.Release(t.Context()))
}

// Strange keys are keys like any other.
func TestAnyBytesAreAKey(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		keys := []string{"a\x00b", "line\r\nbreak", "\xff\xfe", "{", "}", "}{", "{}", "{}x", "a{b}c{d}",
			string(make([]byte, 64<<10))}
		lock, err := locker.AcquireAll(t.Context(), keys)
		require.NoError(t, err)
		for _, key := range keys {
			_, err := locker.TryAcquire(t.Context(), key)
			require.ErrorIs(t, err, rlock.ErrHeld)
			require.Less(t, len(err.Error()), 1000)
		}
		require.NoError(t, lock.Release(t.Context()))
		for _, key := range keys {
			one, err := locker.TryAcquire(t.Context(), key)
			require.NoError(t, err)
			state, err := locker.Check(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, one.Token(), state.Token())
			require.NoError(t, one.Release(t.Context()))
		}
	})
}

// A client that was given Invalidations that are of no use calls them in a goroutine of its own.
func TestInvalidationsThatNobodyMade(t *testing.T) {
	t.Parallel()
	for _, none := range []*rlock.Invalidations{nil, {}} {
		require.NotPanics(t, func() { none.OnInvalidations(nil) })
		require.NotPanics(t, func() { none.OnInvalidations([]rueidis.RedisMessage{{}}) })
	}
}
