package place_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

const lease = time.Minute

// process is a process that waits for keys.
type process struct {
	server *wire.Server
	grants *notify.Grants
}

// newProcess returns a process that hears of grants.
func newProcess(t *testing.T, server *env.Server, name string) *process {
	t.Helper()
	p := newListener(t, server.Client(t), name)
	require.NoError(t, p.grants.Channel("").Listen(t.Context()))
	return p
}

// newListener returns a process that has not subscribed yet.
func newListener(t *testing.T, client rueidis.Client, name string) *process {
	t.Helper()
	p := &process{server: wire.NewServer(client, gen.New(redislua.WithoutRetry()), name)}
	t.Cleanup(func() { p.server.Close(time.Second) })
	p.grants = notify.NewGrants(t.Context(), client, p.server.Queues().Channel, func(g notify.Grant) {
		p.server.Queues().DiscardStray(g.Key, g.Token)
	})
	t.Cleanup(p.grants.Close)
	return p
}

// waits returns a place of the process for a key, and the key as a Claim.
func (p *process) waits(key string, want place.Want) (*place.Place, *wire.Claim) {
	claim := wire.One(key)
	want.TTL, want.Fenced = lease, true
	return place.New(p.server, p.grants, &claim, want), &claim
}

// holds returns a place that has got a free key at once.
func (p *process) holds(t *testing.T, key string) (*place.Place, *wire.Claim) {
	t.Helper()
	held, claim := p.waits(key, place.Want{})
	got, _, err := held.Ask(t.Context())
	require.NoError(t, err)
	require.True(t, got)
	held.Taken()
	return held, claim
}

// queues has a place ask for a key that another has.
func queues(t *testing.T, p *place.Place) {
	t.Helper()
	held, blocked, err := p.Ask(t.Context())
	require.NoError(t, err)
	require.False(t, held)
	require.Greater(t, blocked.Left, lease/2)
	require.NotZero(t, p.Score())
}

// await waits for news that come long before a heartbeat would be of use, or for a heartbeat.
func await(t *testing.T, p *place.Place) (crowded bool) {
	t.Helper()
	crowded, err := p.Await(t.Context(), &notify.Wait{}, lease, clock.Now().After(30*time.Second))
	require.NoError(t, err)
	return crowded
}

// takes has a place wait until it has the key.
func takes(t *testing.T, p *place.Place) {
	t.Helper()
	for held := false; !held; {
		await(t, p)
		var err error
		held, _, err = p.Ask(t.Context())
		require.NoError(t, err)
	}
	p.Taken()
}

func release(t *testing.T, p *process, held *place.Place, claim *wire.Claim) {
	t.Helper()
	freed, err := p.server.Release(t.Context(), claim, held.Token(), nil)
	require.NoError(t, err)
	require.Equal(t, wire.Free, freed)
}

// isIdle checks that the server has neither the key nor a queue for it.
func isIdle(t *testing.T, server *env.Server, key string) {
	t.Helper()
	client := server.Client(t)
	env.Soon(t, func() bool {
		keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*"+key+"*").Build()).AsStrSlice()
		if err != nil {
			return false
		}
		for _, k := range keys {
			kind, err := client.Do(t.Context(), client.B().Type().Key(k).Build()).ToString()
			if err != nil || k == key || kind == "zset" {
				return false
			}
		}
		return true
	}, "neither the key nor its queue is left")
}

// A key that is free is granted by the answer. One that another has is granted by a message, and
// costs no command then.
func TestGranted(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcess(t, server, "q")
		first, claim := p.holds(t, "job")
		deadline, fence := first.Granted()
		require.Greater(t, deadline.Until(), lease*9/10)
		require.LessOrEqual(t, deadline.Until(), lease)
		require.NotZero(t, fence)

		told := false
		for !told { // on a busy machine, a heartbeat may come before the message
			second, taken := q.waits("job", place.Want{})
			queues(t, second)
			release(t, p, first, claim)
			require.False(t, await(t, second), "nobody else waits")
			told = !second.Beating()
			before := server.ScriptCalls(t)
			held, _, err := second.Ask(t.Context())
			require.NoError(t, err)
			require.True(t, held)
			if told {
				require.Equal(t, before, server.ScriptCalls(t))
			}
			_, next := second.Granted()
			require.Greater(t, next, fence)
			second.Taken()
			release(t, q, second, taken)
			isIdle(t, server, "job")
			first, claim = p.holds(t, "job")
		}
		release(t, p, first, claim)
	})
}

// A process that hears nothing finds its grant by a heartbeat.
func TestSilent(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&*", "+@all", "-ssubscribe")
		p, q := newProcess(t, server, "p"),
			newListener(t, server.Client(t,
				func(o *rueidis.ClientOption) { o.Username, o.Password = "deaf", "secret" }), "q")
		first, claim := p.holds(t, "job")
		second, taken := q.waits("job", place.Want{Silent: true})
		queues(t, second)
		release(t, p, first, claim)
		await(t, second)
		require.True(t, second.Beating())
		held, _, err := second.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, held)
		second.Taken()
		release(t, q, second, taken)
		isIdle(t, server, "job")
	})
}

// A process that has joined before it hears of grants says so when it does, keeps its place before those who
// came later, and is told of its grant.
func TestSilentUntilTheProcessListens(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q, r := newProcess(t, server, "p"), newListener(t, server.Client(t), "q"), newProcess(t, server, "r")
		first, claim := p.holds(t, "job")
		second, taken := q.waits("job", place.Want{Silent: true})
		queues(t, second)
		token := second.Token()
		third, last := r.waits("job", place.Want{})
		queues(t, third)
		require.NoError(t, q.grants.Channel("job").Listen(t.Context()))
		await(t, second)
		queues(t, second)
		require.Equal(t, token, second.Token())
		release(t, p, first, claim)
		takes(t, second)
		release(t, q, second, taken)
		takes(t, third)
		release(t, r, third, last)
		isIdle(t, server, "job")
	})
}

// A place that is given up is out of the queue, also if it has been granted and nobody has asked.
func TestLeave(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcess(t, server, "q")
		for _, granted := range []bool{false, true} {
			first, claim := p.holds(t, "job")
			second, _ := q.waits("job", place.Want{})
			queues(t, second)
			if granted {
				release(t, p, first, claim)
			}
			second.Leave()
			if !granted {
				release(t, p, first, claim)
			}
			isIdle(t, server, "job")
		}
		unasked, _ := q.waits("job", place.Want{})
		unasked.Leave() // it has nothing to give up
	})
}

// A holder that passes the key on joins behind those who wait, and has the key again if nobody does.
func TestPassOn(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcess(t, server, "q")
		first, claim := p.holds(t, "job")
		_, fence := first.Granted()

		alone, _ := p.waits("job", place.Want{})
		freed, held, err := alone.PassOn(t.Context(), claim, first.Token())
		require.NoError(t, err)
		require.True(t, freed)
		require.True(t, held)
		_, next := alone.Granted()
		require.Greater(t, next, fence)
		alone.Taken()

		second, taken := q.waits("job", place.Want{})
		queues(t, second)
		again, reclaimed := p.waits("job", place.Want{})
		freed, held, err = again.PassOn(t.Context(), claim, alone.Token())
		require.NoError(t, err)
		require.True(t, freed)
		require.False(t, held)
		require.NotZero(t, again.Score())

		takes(t, second)
		release(t, q, second, taken)
		takes(t, again)
		release(t, p, again, reclaimed)
		isIdle(t, server, "job")
	})
}

// Who does not hold the key cannot pass it on, and gets no place.
func TestPassOnOfAnother(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcess(t, server, "q")
		first, claim := p.holds(t, "job")
		other, theirs := q.waits("job", place.Want{})
		freed, held, err := other.PassOn(t.Context(), theirs, "another token")
		require.ErrorContains(t, err, "another token")
		require.False(t, freed)
		require.False(t, held)
		require.Zero(t, other.Score())
		release(t, p, first, claim)
		isIdle(t, server, "job")
	})
}

// An Ask without an answer goes on where it was: the next one finds what the first has done.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		first, claim := p.waits("job", place.Want{})
		server.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, _, err := first.Ask(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		server.Cont() // the join arrives now
		held, _, err := first.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, held)
		release(t, p, first, claim)
		isIdle(t, server, "job")
	})
}

// The first copy of a join arrives after the second has been answered, and the place given up: what
// it takes is taken back, although the reaper has freed the key once before.
func TestLateJoinAfterLeave(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(*place.Place){
		"leave":   (*place.Place).Leave,
		"abandon": (*place.Place).Abandon,
	} {
		t.Run(name, func(t *testing.T) {
			env.Each(t, func(t *testing.T, e env.Engine) {
				server := e.Start(t)
				p, q := newProcess(t, server, "p"), newProcess(t, server, "q")
				first, claim := p.holds(t, "job")
				second, _ := q.waits("job", place.Want{})
				server.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, _, err := second.Ask(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				server.Cont()
				queues(t, second)
				release(t, p, first, claim)
				await(t, second)
				token := second.Token()
				giveUp(second)
				isIdle(t, server, "job")

				names := slot.NamesOf("job")
				late, err := gen.New(redislua.WithoutRetry()).Wait(t.Context(), server.Client(t), gen.WaitParams{
					Lock: "job", Queue: names.Queue, Waiters: names.Waiters, Holders: names.Holders,
					Grants: slot.AllGrants, Counter: slot.FenceCounter("job"),
					Token: token, TTL: lease, Process: "q", How: gen.WaitHowJoin,
				})
				require.NoError(t, err)
				require.True(t, late.Granted)
				isIdle(t, server, "job")
			})
		})
	}
}

// A server that is gone is no refusal of the queue.
func TestAskOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		server.Kill()
		first, _ := p.waits("job", place.Want{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		held, _, err := first.Ask(ctx)
		require.Error(t, err)
		require.False(t, held)
		var refused *rueidis.RedisError
		require.NotErrorAs(t, err, &refused)
		first.Leave()
	})
}
