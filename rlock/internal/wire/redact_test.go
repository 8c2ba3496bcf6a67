package wire_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

const leftOut = " (it quotes the arguments, which are left out here)"

func TestRedact(t *testing.T) {
	t.Parallel()
	const token, former = "5e884898-da28-4047-9f1a-0d2a4b6c8e10", "short"
	for text, want := range map[string]string{
		"NOPERM this user has no right":                                     "NOPERM this user has no right",
		"unknown command 'EVALSHA', with args beginning with: 'a' '5e88484": "unknown command 'EVALSHA'" + leftOut,
		"proxy refuses SET key 5e884898-da28-4047-9f1a-0d2a4b6c8e10 NX":     "proxy refuses SET key" + leftOut,
		"proxy refuses SET key 5e884898-da":                                 "proxy refuses SET key" + leftOut,
		"proxy refuses `short`":                                             "proxy refuses" + leftOut,
		"the lease is shorter than shortest":                                "the lease is shorter than shortest",
	} {
		original := serverError(t, text)
		err := wire.Redact(original, token, former)
		require.EqualError(t, err, want)
		var server *rueidis.RedisError
		require.ErrorAs(t, err, &server, "it still is a server's error")
		if text == want {
			require.Same(t, original, err)
		}
		require.Equal(t, wire.Refused, wire.OutcomeOf(err))
	}
	require.NoError(t, wire.Redact(nil, token))
	require.EqualError(t, wire.Redact(errors.New("a hook saw 5e884898-da28"), token), "a hook saw"+leftOut)
}

// A token may be a word that errors have. What such an error is stays known.
func TestRedactKeepsWhatAnErrorIs(t *testing.T) {
	t.Parallel()
	err := wire.Redact(fmt.Errorf("gen: Release: %w", context.DeadlineExceeded), "deadline")
	require.EqualError(t, err, "gen: Release: context"+leftOut)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = wire.Redact(rueidis.ErrClosing, "client")
	require.ErrorIs(t, err, rueidis.ErrClosing)
	err = wire.Redact(&redislua.ReplyError{Script: "Acquire", Reason: errors.New("is no list")}, "reply")
	require.False(t, wire.Transient(err), "the server would answer the same again")
	err = wire.Redact(&redislua.ParamError{Script: "Acquire", Param: "ttl", Reason: "0s is below 1ms"}, "ttl")
	require.Equal(t, wire.Refused, wire.OutcomeOf(err))
}
