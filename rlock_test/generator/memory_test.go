package generator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// fullServer is one that is to be out of memory.
type fullServer struct {
	client  rueidis.Client
	scripts *gen.Scripts
}

// The names that the cases use.
const (
	memoryLock, memoryOther     = "{m}lock", "{m}other"
	memoryQueue, memoryQueue2   = "{m}queue", "{m}queue of other"
	memoryHolders, memoryFence  = "{m}holders", "{m}fence"
	memoryWaiters               = "{m}waiters"
	memoryGrants                = "{m}grant:"
	memoryReader, memoryReader2 = "rlock:share:0:1:a", "rlock:share:0:1:b"
	memoryPermit, memoryPermit2 = "rlock:share:4:2:a", "rlock:share:4:2:b"
)

func (f fullServer) wait(how gen.WaitHow, token string, counter ...string) func(context.Context) error {
	return does(f, f.scripts.Wait, gen.WaitParams{
		Lock: memoryLock, Queue: memoryQueue, Waiters: memoryWaiters, Holders: memoryHolders, Grants: memoryGrants,
		Counter: counter, Token: token, TTL: time.Minute, How: how,
	})
}

func (f fullServer) share(how gen.WaitHow, token string) func(context.Context) error {
	return f.wait(how, token, memoryFence)
}

func (f fullServer) release(token string) func(context.Context) error {
	return does(f, f.scripts.Release, gen.ReleaseParams{
		Lock: memoryLock, Queue: memoryQueue, Waiters: memoryWaiters, Holders: memoryHolders, Grants: memoryGrants,
		Counter: []string{memoryFence}, Token: token,
	})
}

func (f fullServer) all(partial bool, keys ...string) func(context.Context) error {
	return does(f, f.scripts.AcquireAll, gen.AcquireAllParams{
		Keys: keys, Token: "t", TTL: time.Minute, Locks: 2, Partial: partial,
	})
}

// has makes a key a lock of a token.
func (f fullServer) has(key, token string) func(context.Context) error {
	return func(ctx context.Context) error {
		return f.client.Do(ctx, f.client.B().Set().Key(key).Value(token).ExSeconds(600).Build()).Error()
	}
}

// does is a call of a script.
func does[P, R any](
	f fullServer, script func(context.Context, rueidis.Client, P) (R, error), params P,
) func(context.Context) error {
	return func(ctx context.Context) error { return env.ErrorOf(script(ctx, f.client, params)) }
}

var errNotTaken = errors.New("it has taken nothing")

func (f fullServer) acquireMany(ctx context.Context) error {
	got, err := f.scripts.AcquireMany(ctx, f.client, gen.AcquireManyParams{
		Keys:  []string{memoryLock, memoryOther, memoryQueue, memoryQueue2, memoryFence},
		Words: []string{"t", "60000", "u", "60000"},
	})
	if err == nil && got[0].Outcome == 0 && got[1].Outcome == 0 {
		return errNotTaken
	}
	return err
}

// image is all that the server has.
func (f fullServer) image(t *testing.T) map[string]string {
	t.Helper()
	names, err := env.Do(t, f.client, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range names {
		all[name], err = env.Do(t, f.client, "DUMP", name).ToString()
		require.NoError(t, err)
	}
	return all
}

// A server that is out of memory refuses every script that takes a lock, a share or a place which nobody has
// given up for it, and nothing has changed then. What frees, extends, confirms or passes on works.
func TestScriptsWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		f := fullServer{server.Client(t), gen.New()}
		type calls []func(context.Context) error
		counter := []string{memoryFence}
		held, mine := f.has(memoryLock, "another"), f.has(memoryLock, "t")
		waits := f.wait(gen.WaitHowJoin, "w", memoryFence)
		shared := calls{f.share(gen.WaitHowTry, memoryReader)}
		refused := map[string]calls{ // the last of the calls is the one
			"Acquire": {does(f, f.scripts.Acquire, gen.AcquireParams{
				Lock: memoryLock, Queue: memoryQueue, Token: "t", TTL: time.Minute, Counter: counter,
			})},
			"Acquire, no fence, no queue": {does(f, f.scripts.Acquire, gen.AcquireParams{
				Lock: memoryLock, Queue: memoryLock, Token: "t", TTL: time.Minute,
			})},
			"AcquireAll":                          {f.all(false, memoryLock, memoryOther, memoryFence)},
			"AcquireAll, one own":                 {mine, f.all(false, memoryLock, memoryOther, memoryFence)},
			"AcquireAll, one own, no fence":       {mine, f.all(false, memoryLock, memoryOther)},
			"AcquireAll, the other own, no fence": {f.has(memoryOther, "t"), f.all(false, memoryLock, memoryOther)},
			"AcquireAll, a part": {f.has(memoryOther, "another"),
				f.all(true, memoryLock, memoryOther, memoryFence)},
			"AcquireMany":                  {f.acquireMany},
			"Wait":                         {f.wait(gen.WaitHowJoin, "t", memoryFence)},
			"Wait, no fence":               {f.wait(gen.WaitHowJoin, "t")},
			"Wait, a try":                  {f.wait(gen.WaitHowTry, "t", memoryFence)},
			"Wait, a place":                {held, f.wait(gen.WaitHowJoin, "t", memoryFence)},
			"Wait, a second place":         {held, waits, f.wait(gen.WaitHowJoin, "t", memoryFence)},
			"Wait, a reader":               {f.share(gen.WaitHowJoin, memoryReader)},
			"Wait, a reader that tries":    {f.share(gen.WaitHowTry, memoryReader)},
			"Wait, a permit":               {f.share(gen.WaitHowJoin, memoryPermit)},
			"Wait, a permit that is tried": {f.share(gen.WaitHowTry, memoryPermit)},
			"Wait, a second reader":        append(shared, f.share(gen.WaitHowJoin, memoryReader2)),
			"Wait, a second permit": {
				f.share(gen.WaitHowTry, memoryPermit), f.share(gen.WaitHowTry, memoryPermit2),
			},
			"Wait, a place of a reader":        {held, f.share(gen.WaitHowJoin, memoryReader)},
			"Wait, a second place of a permit": {held, waits, f.share(gen.WaitHowJoin, memoryPermit)},
			"RaiseFence": {mine, does(f, f.scripts.RaiseFence, gen.RaiseFenceParams{
				Keys: []string{memoryLock, memoryFence}, Token: "t", Fence: 1 << 50, Locks: 1,
			})},
		}
		worked := map[string]calls{
			"Release":              {mine, f.release("t")},
			"Release, passed on":   {mine, waits, f.release("t")},
			"Release, of a reader": append(shared, f.release(memoryReader)),
			"ReleaseMany": {mine, does(f, f.scripts.ReleaseMany, gen.ReleaseManyParams{
				Keys: []string{memoryLock, memoryQueue}, Locks: 1, Tokens: []string{"t"},
			})},
			"Requeue": {mine, waits, does(f, f.scripts.Requeue, gen.RequeueParams{
				Lock: memoryLock, Queue: memoryQueue, Waiters: memoryWaiters, Holders: memoryHolders,
				Grants:  memoryGrants,
				Counter: counter, Token: "t", Again: "u", TTL: time.Minute,
			})},
			"HandOver": {mine, does(f, f.scripts.HandOver, gen.HandOverParams{
				Lock: memoryLock, Queue: memoryQueue, Counter: counter, Token: "t", Next: "u",
				TTL: time.Minute, Fences: 1,
			})},
			"Attach": {mine, does(f, f.scripts.Attach, gen.AttachParams{
				Keys: []string{memoryLock}, Token: "u", Keep: true, Former: []string{"t"},
			})},
			"Attach, shorter": {mine, does(f, f.scripts.Attach, gen.AttachParams{
				Keys: []string{memoryLock}, Token: "u", TTL: time.Minute, Former: []string{"t"},
			})},
			"Attach, of a reader": append(shared, does(f, f.scripts.Attach, gen.AttachParams{
				Keys: []string{memoryLock, memoryHolders}, Token: memoryReader2, TTL: time.Second,
				Former: []string{memoryReader},
			})),
			"Extend": {mine, does(f, f.scripts.Extend, gen.ExtendParams{
				Keys: []string{memoryLock}, TTL: time.Hour, Tokens: []string{"t"},
			})},
			"Extend, of a reader": append(shared, does(f, f.scripts.Extend, gen.ExtendParams{
				Keys: []string{memoryLock, memoryHolders}, TTL: time.Hour, Tokens: []string{memoryReader},
			})),
			"Acquire, what it has": {mine, does(f, f.scripts.Acquire, gen.AcquireParams{
				Lock: memoryLock, Queue: memoryQueue, Token: "t", TTL: time.Minute, Counter: counter,
			})},
			"Wait, what was granted": {mine, f.wait(gen.WaitHowHeartbeat, "t", memoryFence)},
			"Wait, what it has":      append(shared, f.share(gen.WaitHowHeartbeat, memoryReader)),
		}
		run := func(t *testing.T, list calls) (before map[string]string, err error) {
			t.Helper()
			require.NoError(t, env.Do(t, f.client, "FLUSHALL").Error())
			server.Do(t, "CONFIG", "SET", "maxmemory", "0")
			for _, prepare := range list[:len(list)-1] {
				require.NoError(t, prepare(t.Context()))
			}
			before = f.image(t)
			server.Do(t, "CONFIG", "SET", "maxmemory", "1")
			return before, list[len(list)-1](t.Context())
		}
		for _, name := range slices.Sorted(maps.Keys(refused)) {
			before, err := run(t, refused[name])
			if !errors.Is(err, errNotTaken) {
				require.ErrorContains(t, err, "OOM", name)
			}
			require.Equal(t, before, f.image(t), name)
		}
		for _, name := range slices.Sorted(maps.Keys(worked)) {
			before, err := run(t, worked[name])
			require.NoError(t, err, name)
			if !strings.HasPrefix(name, "Extend") && name != "Wait, what it has" { // a dump has no lease
				require.NotEqual(t, before, f.image(t), name)
			}
		}
	})
}
