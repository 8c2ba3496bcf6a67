package remote_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
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
		err := remote.Redact(original, token, former)
		require.EqualError(t, err, want)
		var server *rueidis.RedisError
		require.ErrorAs(t, err, &server, "it still is a server's error")
		if text == want {
			require.Same(t, original, err)
		}
		require.Equal(t, remote.Refused, remote.OutcomeOf(err))
	}
	require.NoError(t, remote.Redact(nil, token))
	require.EqualError(t, remote.Redact(errors.New("a hook saw 5e884898-da28"), token), "a hook saw"+leftOut)
}

// A token may be a word that errors have. What such an error is stays known.
func TestRedactKeepsWhatAnErrorIs(t *testing.T) {
	t.Parallel()
	err := remote.Redact(fmt.Errorf("gen: Release: %w", context.DeadlineExceeded), "deadline")
	require.EqualError(t, err, "gen: Release: context"+leftOut)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = remote.Redact(rueidis.ErrClosing, "client")
	require.ErrorIs(t, err, rueidis.ErrClosing)
	err = remote.Redact(&gen.ReplyError{Script: "Acquire", Reason: errors.New("is no list")}, "reply")
	require.False(t, remote.Transient(err), "the server would answer the same again")
	err = remote.Redact(&gen.ParamError{Script: "Acquire", Param: "ttl", Reason: "0s is below 1ms"}, "ttl")
	require.Equal(t, remote.Refused, remote.OutcomeOf(err))
}
