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

// Faulty is a client of a real server. A test can hold, lose or answer its commands, at exactly the moment
// that the test is about. To break the network and not the client, use Proxy.
type Faulty struct {
	rueidis.Client
	mu sync.Mutex
	on Fault
}

// Fault replaces a command. It gets the words of the command, and a function that runs the command. It
// returns the reply that the caller sees. The Faults of several commands run at the same time.
type Fault = func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult

// NewFaulty starts a server. It returns a Faulty client of the server, a Locker on this client, and a client
// without faults. The server knows the scripts, so every call of a script is one EVALSHA.
func NewFaulty(t testing.TB, e Engine, opts ...rlock.LockerOption) (*Faulty, *rlock.Locker, rueidis.Client) {
	t.Helper()
	server := e.Start(t)
	// One connection, which is open already. If a context panics while its call dials another connection, all
	// later users of that connection wait.
	f := &Faulty{Client: server.Client(t, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 })}
	require.NoError(t, gen.New().Load(t.Context(), f.Client))
	return f, NewLocker(t, f, opts...), server.Client(t)
}

// When sets the Fault of each command that the client sends from now on. nil lets the commands run.
func (f *Faulty) When(on Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// Do is Do of rueidis.Client.
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

// DoMulti is DoMulti of rueidis.Client. It runs one command after the other.
func (f *Faulty) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	replies := make([]rueidis.RedisResult, len(commands))
	for i, command := range commands {
		replies[i] = f.Do(ctx, command)
	}
	return replies
}

// Refuse returns the reply of a server that refuses a command with this text.
func (f *Faulty) Refuse(text string) rueidis.RedisResult {
	return f.Client.Do(context.Background(),
		f.Client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build())
}

// RefuseAll is When with a server that refuses every command, as while the server loads its data.
func (f *Faulty) RefuseAll() {
	f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return f.Refuse("LOADING later") })
}

// NoReply returns what a client sees when the connection breaks before the reply.
func NoReply() rueidis.RedisResult { return rueidis.NewErrorResult(io.ErrUnexpectedEOF) }

// Once returns a Fault that replaces the first call of the script with this SHA1. All other commands run.
func Once(sha string, instead func(run func() rueidis.RedisResult) rueidis.RedisResult) Fault {
	var done atomic.Bool
	return func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if Calls(words, sha) && done.CompareAndSwap(false, true) {
			return instead(run)
		}
		return run()
	}
}

// Calls reports whether the words call the script with this SHA1. A call that shortens a lease counts as a
// call of extend.lua. That call runs attach.lua, because the lock gets another token.
func Calls(words []string, sha string) bool {
	return len(words) > 1 && (words[1] == sha || sha == gen.ExtendSHA1 && words[1] == gen.AttachSHA1 &&
		!keeps(words))
}

// keeps reports whether a call of attach.lua with these words keeps the leases.
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

// IsExtendTo reports whether the words set the lease of one lock to ttl milliseconds.
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
