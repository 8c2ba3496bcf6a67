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
	memoryGrants                = "{m}grant:"
	memoryReader, memoryReader2 = "rlock:share:0:1:a", "rlock:share:0:1:b"
	memoryPermit, memoryPermit2 = "rlock:share:4:2:a", "rlock:share:4:2:b"
)

func (f fullServer) join(how gen.JoinHow, token string, fenced bool) func(context.Context) error {
	p := gen.JoinParams{Lock: memoryLock, Queue: memoryQueue, Grants: memoryGrants,
		Token: token, TTL: time.Minute, How: how}
	if fenced {
		p.Counter = []string{memoryFence}
	}
	return func(ctx context.Context) error { return env.ErrorOf(f.scripts.Join(ctx, f.client, p)) }
}

func (f fullServer) share(how gen.AcquireSharedHow, token string) func(context.Context) error {
	return does(f, f.scripts.AcquireShared, gen.AcquireSharedParams{
		Lock: memoryLock, Holders: memoryHolders, Queue: memoryQueue, Counter: memoryFence, Grants: memoryGrants,
		Token: token, TTL: time.Minute, How: how,
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

func (f fullServer) tryMany(ctx context.Context) error {
	got, err := f.scripts.TryMany(ctx, f.client, gen.TryManyParams{
		Keys: []string{memoryLock, memoryOther, memoryQueue, memoryQueue2, memoryFence}, Words: []string{"t", "60000", "u", "60000"},
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
		waits := f.join(gen.JoinHowJoin, "w", true)
		shared := calls{f.share(gen.AcquireSharedHowTry, memoryReader)}
		refused := map[string]calls{ // the last of the calls is the one
			"Acquire": {does(f, f.scripts.Acquire, gen.AcquireParams{
				Lock: memoryLock, Token: "t", TTL: time.Minute, Counter: counter,
			})},
			"Acquire, no fence": {does(f, f.scripts.Acquire, gen.AcquireParams{
				Lock: memoryLock, Token: "t", TTL: time.Minute,
			})},
			"AcquireAll":                          {f.all(false, memoryLock, memoryOther, memoryFence)},
			"AcquireAll, one own":                 {mine, f.all(false, memoryLock, memoryOther, memoryFence)},
			"AcquireAll, one own, no fence":       {mine, f.all(false, memoryLock, memoryOther)},
			"AcquireAll, the other own, no fence": {f.has(memoryOther, "t"), f.all(false, memoryLock, memoryOther)},
			"AcquireAll, a part":                  {f.has(memoryOther, "another"), f.all(true, memoryLock, memoryOther, memoryFence)},
			"Try": {func(ctx context.Context) error {
				r, err := f.scripts.Try(ctx, f.client, gen.TryParams{
					Lock: memoryLock, Queue: memoryQueue, Token: "t", TTL: time.Minute, Counter: counter,
				})
				if err == nil && r.Outcome == 0 {
					return errNotTaken
				}
				return err
			}},
			"Try, no fence": {does(f, f.scripts.Try, gen.TryParams{
				Lock: memoryLock, Queue: memoryQueue, Token: "t", TTL: time.Minute,
			})},
			"TryMany":                               {f.tryMany},
			"Join":                                  {f.join(gen.JoinHowJoin, "t", true)},
			"Join, no fence":                        {f.join(gen.JoinHowJoin, "t", false)},
			"Join, a try":                           {f.join(gen.JoinHowTry, "t", true)},
			"Join, a place":                         {held, f.join(gen.JoinHowJoin, "t", true)},
			"Join, a second place":                  {held, waits, f.join(gen.JoinHowJoin, "t", true)},
			"AcquireShared, a reader":               {f.share(gen.AcquireSharedHowJoin, memoryReader)},
			"AcquireShared, a reader that tries":    {f.share(gen.AcquireSharedHowTry, memoryReader)},
			"AcquireShared, a permit":               {f.share(gen.AcquireSharedHowJoin, memoryPermit)},
			"AcquireShared, a permit that is tried": {f.share(gen.AcquireSharedHowTry, memoryPermit)},
			"AcquireShared, a second reader":        append(shared, f.share(gen.AcquireSharedHowJoin, memoryReader2)),
			"AcquireShared, a second permit":        {f.share(gen.AcquireSharedHowTry, memoryPermit), f.share(gen.AcquireSharedHowTry, memoryPermit2)},
			"AcquireShared, a place":                {held, f.share(gen.AcquireSharedHowJoin, memoryReader)},
			"AcquireShared, a second place":         {held, waits, f.share(gen.AcquireSharedHowJoin, memoryPermit)},
			"ChangeLimit": {f.share(gen.AcquireSharedHowTry, memoryPermit), does(f, f.scripts.ChangeLimit, gen.ChangeLimitParams{
				Lock: memoryLock, Holders: memoryHolders, Queue: memoryQueue, Grants: memoryGrants,
				Limit: 8,
			})},
			"RaiseFence": {mine, does(f, f.scripts.RaiseFence, gen.RaiseFenceParams{
				Keys: []string{memoryLock, memoryFence}, Token: "t", Fence: 1 << 50, Locks: 1,
			})},
		}
		worked := map[string]calls{
			"Release": {mine, does(f, f.scripts.Release, gen.ReleaseParams{
				Locks: []string{memoryLock}, Token: "t",
			})},
			"Pass": {mine, waits, does(f, f.scripts.Pass, gen.PassParams{
				Lock: memoryLock, Queue: memoryQueue, Grants: memoryGrants, Counter: counter, Token: "t",
			})},
			"PassAll": {mine, waits, does(f, f.scripts.PassAll, gen.PassAllParams{
				Grants: memoryGrants, Keys: []string{memoryLock, memoryQueue, memoryFence},
				Token: "t", Locks: 1,
			})},
			"PassMany": {mine, waits, does(f, f.scripts.PassMany, gen.PassManyParams{
				Grants: memoryGrants, Keys: []string{memoryLock, memoryQueue, memoryFence},
				Tokens: []string{"t"},
			})},
			"Requeue": {mine, waits, does(f, f.scripts.Requeue, gen.RequeueParams{
				Lock: memoryLock, Queue: memoryQueue, Grants: memoryGrants, Counter: counter,
				Token: "t", Again: "u", AgainTTL: time.Minute,
			})},
			"HandOver": {mine, does(f, f.scripts.HandOver, gen.HandOverParams{
				Lock: memoryLock, Queue: memoryQueue, Counter: counter, Token: "t", Next: "u",
				TTL: time.Minute, Fences: 1,
			})},
			"Attach": {mine, does(f, f.scripts.Attach, gen.AttachParams{
				Locks: []string{memoryLock}, Token: "u", Former: []string{"t"},
			})},
			"Extend": {mine, does(f, f.scripts.Extend, gen.ExtendParams{
				Locks: []string{memoryLock}, Token: "u", TTL: time.Minute, Former: []string{"t"},
			})},
			"ExtendMany": {mine, does(f, f.scripts.ExtendMany, gen.ExtendManyParams{
				Locks: []string{memoryLock}, TTL: time.Hour, Tokens: []string{"t"},
			})},
			"ExtendShared": append(shared, does(f, f.scripts.ExtendShared, gen.ExtendSharedParams{
				Lock: memoryLock, Holders: memoryHolders, Token: memoryReader, TTL: time.Hour,
			})),
			"ReleaseShared": append(shared, does(f, f.scripts.ReleaseShared, gen.ReleaseSharedParams{
				Lock: memoryLock, Holders: memoryHolders, Queue: memoryQueue, Counter: memoryFence,
				Grants: memoryGrants, Token: memoryReader,
			})),
			"Join, what was granted":          {mine, f.join(gen.JoinHowHeartbeat, "t", true)},
			"AcquireShared, what was granted": {f.has(memoryLock, memoryReader), f.share(gen.AcquireSharedHowHeartbeat, memoryReader)},
			"AcquireShared, what it has":      append(shared, f.share(gen.AcquireSharedHowHeartbeat, memoryReader)),
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
			if !strings.HasPrefix(name, "Extend") && name != "AcquireShared, what it has" { // a dump has no lease
				require.NotEqual(t, before, f.image(t), name)
			}
		}
	})
}
