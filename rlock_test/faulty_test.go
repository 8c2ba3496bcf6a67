package rlock_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// faulty is a client of a real server whose commands can be held, lost or
// answered otherwise, at exactly the moment that a test is about.
type faulty struct {
	rueidis.Client
	mu sync.Mutex
	on func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult
}

// when sets what happens to commands from now on; nil: what they ask for.
func (f *faulty) when(on func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

func (f *faulty) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	f.mu.Lock()
	on := f.on
	f.mu.Unlock()
	run := func() rueidis.RedisResult { return f.Client.Do(ctx, command) }
	if on == nil {
		return run()
	}
	return on(slices.Clone(command.Commands()), run)
}

func (f *faulty) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	replies := make([]rueidis.RedisResult, len(commands))
	for i, command := range commands {
		replies[i] = f.Do(ctx, command)
	}
	return replies
}

// is reports whether words call the script of that SHA1.
func is(words []string, sha string) bool { return len(words) > 1 && words[1] == sha }

// noReply is what a client sees when the connection breaks.
func noReply() rueidis.RedisResult { return rueidis.NewErrorResult(io.ErrUnexpectedEOF) }

// refuse answers like a server that refuses.
func (f *faulty) refuse(text string) rueidis.RedisResult {
	return f.Client.Do(context.Background(),
		f.Client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build())
}

// newFaulty returns a faulty client, a locker on it, and another client.
func newFaulty(t *testing.T, e bed.Engine, opts ...rlock.Option) (*faulty, *rlock.Locker, rueidis.Client) {
	t.Helper()
	server := e.Start(t)
	f := &faulty{Client: server.Client(t)}
	require.NoError(t, gen.New().Load(t.Context(), f.Client))
	return f, newLocker(t, f, opts...), server.Client(t)
}
