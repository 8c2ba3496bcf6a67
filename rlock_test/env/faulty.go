package env

import (
	"context"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
)

// Faulty is a client of a real server whose commands can be held, lost or answered
// otherwise, at exactly the moment that a test is about. Where the network is to fail
// in place of the client, there is Proxy.
type Faulty struct {
	rueidis.Client
	mu sync.Mutex
	on Fault
}

// Fault is called in place of a command, with its words and with what runs it. It
// returns the reply that the caller sees. Faults of several commands run at once.
type Fault = func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult

// NewFaulty starts a server and returns a Faulty client of it, a Locker on that, and a
// client that nothing happens to. The server knows the scripts, so that every call of a
// script is one EVALSHA.
func NewFaulty(t testing.TB, e Engine, opts ...rlock.LockerOption) (*Faulty, *rlock.Locker, rueidis.Client) {
	t.Helper()
	server := e.Start(t)
	// One connection, which is open already: a context that panics while its call dials another one keeps
	// all waiting who need that later.
	f := &Faulty{Client: server.Client(t, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 })}
	require.NoError(t, gen.New().Load(t.Context(), f.Client))
	return f, NewLocker(t, f, opts...), server.Client(t)
}

// When sets what happens to each command that is sent from now on; nil: what it asks
// for.
func (f *Faulty) When(on Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// Do is that of rueidis.Client.
func (f *Faulty) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	f.mu.Lock()
	on := f.on
	f.mu.Unlock()
	run := func() rueidis.RedisResult { return f.Client.Do(ctx, command) }
	if on == nil {
		return run()
	}
	return on(slices.Clone(command.Commands()), run)
}

// DoMulti is that of rueidis.Client, one command after the other.
func (f *Faulty) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	replies := make([]rueidis.RedisResult, len(commands))
	for i, command := range commands {
		replies[i] = f.Do(ctx, command)
	}
	return replies
}

// Refuse returns the reply of a server that refuses with that text.
func (f *Faulty) Refuse(text string) rueidis.RedisResult {
	return f.Client.Do(context.Background(),
		f.Client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build())
}

// RefuseAll is When with a server that refuses every command as one that still loads its
// data.
func (f *Faulty) RefuseAll() {
	f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return f.Refuse("LOADING later") })
}

// NoReply returns what a client sees when the connection breaks before the reply.
func NoReply() rueidis.RedisResult { return rueidis.NewErrorResult(io.ErrUnexpectedEOF) }

// Once returns a Fault of the first call of the script with that SHA1. All other commands
// run.
func Once(sha string, instead func(run func() rueidis.RedisResult) rueidis.RedisResult) Fault {
	var done atomic.Bool
	return func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if Calls(words, sha) && done.CompareAndSwap(false, true) {
			return instead(run)
		}
		return run()
	}
}

// Calls reports whether the words call the script with that SHA1. A call that makes a lease shorter extends
// too, although it is one of attach.lua, because the lock gets another token.
func Calls(words []string, sha string) bool {
	return len(words) > 1 && (words[1] == sha || sha == gen.ExtendSHA1 && words[1] == gen.AttachSHA1 &&
		!keeps(words))
}

// keeps reports whether the words of a call of attach.lua keep the leases.
func keeps(words []string) bool {
	keys, err := strconv.Atoi(words[2])
	return err == nil && words[4+keys] == "1"
}

// IsAcquire reports whether the words ask for a lock of one key.
func IsAcquire(words []string) bool {
	return Calls(words, gen.AcquireSHA1) || Calls(words, gen.WaitSHA1) || Calls(words, gen.AcquireManySHA1)
}

// IsAttach reports whether the words attach a lock.
func IsAttach(words []string) bool { return Calls(words, gen.AttachSHA1) }

// IsExtend reports whether the words extend one lock, as Extend does.
func IsExtend(words []string) bool { return Calls(words, gen.ExtendSHA1) }

// IsExtendTo reports whether the words give one lock a lease of that many milliseconds.
func IsExtendTo(words []string, ttl string) bool {
	if !IsExtend(words) {
		return false
	}
	keys, err := strconv.Atoi(words[2])
	at := 3 + keys
	if words[1] == gen.AttachSHA1 {
		at += 2
	}
	return err == nil && words[at] == ttl
}
