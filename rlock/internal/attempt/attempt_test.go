package attempt_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

const ttl = time.Minute

// process is a process that makes attempts.
type process struct {
	server *wire.Server
	grants *notify.Grants
}

func newProcess(t *testing.T, server *env.Server, name string) *process {
	t.Helper()
	return newProcessOf(t, server.Client(t), name)
}

func newProcessOf(t *testing.T, client rueidis.Client, name string) *process {
	t.Helper()
	p := &process{server: wire.NewServer(client, gen.New(redislua.WithoutRetry()), name)}
	t.Cleanup(func() { p.server.Close(time.Second) })
	p.grants = notify.NewGrants(t.Context(), client, p.server.Queues().Channel, func(g notify.Grant) {
		p.server.Queues().DiscardStray(g.Key, g.Token)
	})
	t.Cleanup(p.grants.Close)
	return p
}

// leased is what the acquisition asks for, as its line has it.
type leased struct {
	part line.Lease
	key  string
}

func (l *leased) Part() *line.Lease       { return &l.part }
func (l *leased) Key() string             { return l.key }
func (l *leased) Deadline() clock.Instant { return 0 }

// acquisition is what makes the attempts.
type acquisition struct {
	attempt.Attempts
	claim  wire.Claim
	lease  terms.Terms
	line   leased
	count  int32
	notice notify.Wait
}

// acquires returns an acquisition of keys that waits.
func (p *process) acquires(keys []string, change ...func(*acquisition, *attempt.Settings)) *acquisition {
	a := &acquisition{claim: p.server.All(keys, false)}
	a.lease.Prepare(ttl, "")
	a.line.key = keys[0]
	line.New(0).Enter(&line.Kind{Key: keys[0]}, &a.line, &line.Want{}, true, 1, clock.Now())
	s := attempt.Settings{
		Server: p.server, Grants: p.grants, Line: line.Handle{Lease: &a.line}, Claim: &a.claim, Terms: &a.lease,
		Want: line.Want{TTL: ttl, Fenced: true}, Wait: true, Start: clock.Now(), Count: &a.count,
	}
	for _, c := range change {
		c(a, &s)
	}
	a.Attempts = attempt.Attempts{Settings: s}
	attempt.Begin(&a.Attempts)
	return a
}

func once(_ *acquisition, s *attempt.Settings) { s.Wait = false }

// gets tries until the acquisition is granted the lock.
func gets(t *testing.T, a *acquisition) attempt.Grant {
	t.Helper()
	for began := time.Now(); ; {
		g, why := a.Try(t.Context())
		if why.Kind == attempt.None {
			return g
		}
		require.Less(t, time.Since(began), 30*time.Second, "it waits still")
		pauses(t, a, why)
	}
}

// stands tries until the acquisition has a place in the only queue of the server.
func stands(t *testing.T, server *env.Server, a *acquisition) {
	t.Helper()
	for len(queues(t, server)) == 0 {
		_, why := a.Try(t.Context())
		pauses(t, a, why)
	}
}

// releases releases what the acquisition has got.
func releases(t *testing.T, p *process, a *acquisition) {
	t.Helper()
	freed, err := p.server.Release(t.Context(), &a.claim, a.lease.Token(), nil)
	require.NoError(t, err)
	require.Equal(t, wire.Free, freed)
}

// pauses waits after an attempt, as the default policy says.
func pauses(t *testing.T, a *acquisition, why attempt.Setback) {
	t.Helper()
	require.True(t, why.Passes(), why.Err)
	require.NoError(t, a.Pause(t.Context(), &a.notice, why, clock.NoExpiry, clock.Never, clock.Never))
}

// A free key is granted at once.
func TestFree(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		for _, a := range []*acquisition{p.acquires([]string{"job"}, once), p.acquires([]string{"a", "b"})} {
			g, why := a.Try(t.Context())
			require.Zero(t, why)
			require.NotZero(t, g.Fence)
			require.Greater(t, g.Deadline.Until(), ttl*9/10)
			require.EqualValues(t, 1, a.count)
			require.False(t, a.Blocker.Held)
			require.Equal(t, a.lease.Token(), owner(t, server, a.claim.Key()))
		}
	})
}

// owner returns the token that a key has, "" if it is free.
func owner(t *testing.T, server *env.Server, key string) string {
	t.Helper()
	reply := server.Do(t, "GET", key)
	if reply.IsNil() {
		return ""
	}
	token, err := reply.ToString()
	require.NoError(t, err)
	return token
}

// An acquisition that waits is granted the lock when its holder releases it, and heartbeats are no
// attempts. One that does not wait is told who stands in the way.
func TestHeld(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcess(t, server, "q")
		first := p.acquires([]string{"job"})
		before := gets(t, first)

		single := q.acquires([]string{"job"}, once)
		_, why := single.Try(t.Context())
		require.Equal(t, attempt.Busy, why.Kind)
		require.Equal(t, "job", single.Blocker.Key)
		require.True(t, single.Blocker.Held)
		require.Greater(t, single.Blocker.Remaining(), ttl*9/10)

		second := q.acquires([]string{"job"})
		for range 4 { // an attempt, the place, and heartbeats
			_, why := second.Try(t.Context())
			pauses(t, second, why)
		}
		require.False(t, second.AsksPolicy())
		require.EqualValues(t, 1, second.count)
		releases(t, p, first)
		after := gets(t, second)
		require.Greater(t, after.Fence, before.Fence)
		require.Equal(t, second.lease.Token(), owner(t, server, "job"))
	})
}

// A token that the caller has chosen gets the key when another, which stands in the queue for it,
// is granted the lock.
func TestChosenToken(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		first := p.acquires([]string{"job"})
		gets(t, first)
		second := p.acquires([]string{"job"}, choose)
		require.False(t, second.IsWholeKey())
		for range 2 {
			_, why := second.Try(t.Context())
			pauses(t, second, why)
		}
		releases(t, p, first)
		gets(t, second)
		require.Equal(t, "chosen", owner(t, server, "job"))
	})
}

// waitsFor tries until the acquisition waits for a key.
func waitsFor(t *testing.T, server *env.Server, a *acquisition, key string) {
	t.Helper()
	for waiters(t, server, key) == 0 {
		_, why := a.Try(t.Context())
		if waiters(t, server, key) == 0 {
			pauses(t, a, why)
		}
	}
}

func waiters(t *testing.T, server *env.Server, key string) int64 {
	t.Helper()
	reply := server.Do(t, "ZCARD", slot.Queue(key))
	n, err := reply.AsInt64()
	require.NoError(t, err)
	return n
}

// inOrder has a set of the keys a and b, which others use in turn, take them one after the other: it has a,
// and waits for b, which the acquisition that is returned has.
func inOrder(t *testing.T, server *env.Server, p *process, set *acquisition) (holder *acquisition) {
	t.Helper()
	holds := func(key string) *acquisition {
		a := p.acquires([]string{key})
		gets(t, a)
		return a
	}
	a, b := holds("a"), holds("b")
	waitsFor(t, server, set, "a")
	require.Equal(t, "a", set.Blocker.Key)
	releases(t, p, a)
	waitsFor(t, server, set, "b")
	require.Empty(t, owner(t, server, "a"), "it waits for another key holding nothing")
	a = holds("a")
	releases(t, p, b)
	waitsFor(t, server, set, "a")
	require.Empty(t, owner(t, server, "b"), "it waits for no key holding a later one")
	b = holds("b")
	releases(t, p, a)
	waitsFor(t, server, set, "b")
	require.Equal(t, set.lease.Token(), owner(t, server, "a"), "it keeps what it gets in order")
	return b
}

// A set waits for each of its keys holding nothing, and then keeps what it gets, in the order of their names.
func TestSet(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		set := p.acquires([]string{"a", "b"})
		releases(t, p, inOrder(t, server, p, set))
		gets(t, set)
		require.Equal(t, set.lease.Token(), owner(t, server, "a"))
		require.Equal(t, set.lease.Token(), owner(t, server, "b"))
	})
}

// A set that waits for one key gets the others with it.
func TestSetGetsAllWithTheKeyInItsWay(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		blocker := p.acquires([]string{"b"})
		gets(t, blocker)
		set := p.acquires([]string{"a", "b", "c"})
		waitsFor(t, server, set, "b")
		require.Empty(t, owner(t, server, "a"))
		releases(t, p, blocker)
		gets(t, set)
		for _, key := range []string{"a", "b", "c"} {
			require.Equal(t, set.lease.Token(), owner(t, server, key))
		}
	})
}

// whoMayNotQueue returns a client of a user whose places in queues are refused.
func whoMayNotQueue(t *testing.T, server *env.Server) rueidis.Client {
	t.Helper()
	server.Do(t, "ACL", "SETUSER", "modest", "on", "nopass", "~*", "&*", "+@all", "-zadd")
	return server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "modest", "any" })
}

// An acquisition whose place is refused goes on with a token that it has not given to the reaper, which
// would free what it takes.
func TestRefusedPlaceOfAnUnansweredTry(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcessOf(t, whoMayNotQueue(t, server), "q")
		first, second := p.acquires([]string{"job"}), q.acquires([]string{"job"})
		gets(t, first)
		_, why := second.Try(t.Context())
		tried := second.lease.Token()
		second.Interrupted() // as if a copy of the try had got no answer
		pauses(t, second, why)
		_, why = second.Try(t.Context())
		require.Equal(t, attempt.Busy, why.Kind, why.Err)
		require.NotEmpty(t, second.lease.Token())
		require.NotEqual(t, tried, second.lease.Token())
	})
}

// So does a set, whose place has the token of the set. It begins anew.
func TestRefusedPlaceOfASet(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p"), newProcessOf(t, whoMayNotQueue(t, server), "q")
		server.Do(t, "ACL", "SETUSER", "modest", "+zadd")
		set := q.acquires([]string{"a", "b"})
		inOrder(t, server, p, set)
		collected := set.lease.Token()
		server.Do(t, "ACL", "SETUSER", "modest", "-zadd")
		server.Do(t, "DEL", slot.Queue("b")) // its next heartbeat finds that it has to join again
		_, why := set.Try(t.Context())
		for set.lease.Token() == collected {
			pauses(t, set, why)
			_, why = set.Try(t.Context())
		}
		require.Equal(t, attempt.Busy, why.Kind, why.Err)
		require.Empty(t, owner(t, server, "a"), "it was given back")
	})
}

// late sends a copy of a join for the key "job" that the network has delayed, and reports whether it took
// the key. If not, it has got a place.
func late(t *testing.T, server *env.Server, token string) (granted bool) {
	t.Helper()
	names := slot.NamesOf("job")
	reply, err := gen.New(redislua.WithoutRetry()).Wait(t.Context(), server.Client(t), gen.WaitParams{
		Lock: "job", Queue: names.Queue, Waiters: names.Waiters, Holders: names.Holders,
		Grants: slot.AllGrants, Counter: slot.FenceCounter("job"),
		Token: token, TTL: ttl, Process: "p", How: gen.WaitHowJoin,
	})
	require.NoError(t, err)
	require.NotEqual(t, reply.Granted, reply.Score != 0)
	return reply.Granted
}

// waiting returns the token that waits for the key "job".
func waiting(t *testing.T, server *env.Server) string {
	t.Helper()
	reply := server.Do(t, "ZRANGE", slot.Queue("job"), "0", "0")
	members, err := reply.AsStrSlice()
	require.NoError(t, err)
	require.Len(t, members, 1)
	return members[0]
}

// A join without an answer may arrive when the place has ended well, and the lock has been released.
func TestLateJoinOfAChosenToken(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		first := p.acquires([]string{"job"})
		gets(t, first)
		second := p.acquires([]string{"job"}, choose)
		stands(t, server, second)
		token := waiting(t, server)
		second.Interrupted() // as if a copy of the join had got no answer
		releases(t, p, first)
		gets(t, second)
		releases(t, p, second)
		require.True(t, late(t, server, token))
		env.Soon(t, func() bool { return owner(t, server, "job") == "" }, "what nobody has is freed")
	})
}

func choose(a *acquisition, _ *attempt.Settings) {
	a.claim.Choose()
	a.lease.SetToken("chosen")
}

// The place of a set has the token of the set, whose release looks for what may still come.
func TestLateJoinOfASet(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		blocker := p.acquires([]string{"job"})
		gets(t, blocker)
		set := p.acquires([]string{"job", "a"})
		stands(t, server, set)
		set.Interrupted()
		releases(t, p, blocker)
		gets(t, set)
		releases(t, p, set)
		require.True(t, late(t, server, set.lease.Token()))
		env.Soon(t, func() bool { return owner(t, server, "job") == "" }, "what nobody has is freed")
	})
}

// A late join gets a place if somebody else has the key by then. The reaper takes the place back.
func TestLateJoinOfAHeldKey(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"a key": {"job"}, "a set": {"job", "a"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				server := e.Start(t)
				p := newProcess(t, server, "p")
				first := p.acquires([]string{"job"})
				gets(t, first)
				second := p.acquires(keys)
				stands(t, server, second)
				second.Interrupted() // as if a copy of the join had got no answer
				releases(t, p, first)
				gets(t, second)
				releases(t, p, second)
				third := p.acquires([]string{"job"})
				gets(t, third)
				require.False(t, late(t, server, second.lease.Token()))
				env.Soon(t, func() bool { return len(queues(t, server)) == 0 }, "the place is taken back")
				require.Equal(t, third.lease.Token(), owner(t, server, "job"))
			})
		})
	}
}

// A set finds that it has all its keys before the message comes that grants it the last one, and the server
// does not answer when it says so. It keeps the key.
func TestSetConfirmsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, c := newProcess(t, server, "p"), &env.Faulty{Client: server.Client(t)}
		q := newProcessOf(t, c, "q")
		set := q.acquires([]string{"a", "b"})
		first := inOrder(t, server, p, set)
		heartbeats := 0
		c.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			answer := run()
			if slices.Contains(words, gen.WaitSHA1) {
				switch heartbeats++; heartbeats {
				case 1: // it says that the set must wait
					releases(t, p, first)
				case 2:
					return env.NoReply()
				}
			}
			return answer
		})
		gets(t, set)
		require.GreaterOrEqual(t, heartbeats, 2)
		time.Sleep(time.Second) // in which the reaper has made three tries
		require.Equal(t, set.lease.Token(), owner(t, server, "b"))
		require.Equal(t, set.lease.Token(), owner(t, server, "a"))
	})
}

// The place of a set is lost while the key is free, so another token of it gets the key at once. The set
// begins anew, and leaves nothing to that token.
func TestSetLosesItsPlace(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		first := p.acquires([]string{"job"})
		gets(t, first)
		set := p.acquires([]string{"job", "a"})
		stands(t, server, set)
		server.Do(t, "DEL", slot.Queue("job"), "job")
		gets(t, set)
		require.Equal(t, set.lease.Token(), owner(t, server, "job"))
		require.Equal(t, set.lease.Token(), owner(t, server, "a"))
	})
}

// A hook that panics while a chosen token gets the key from its place leaves nothing locked.
func TestPanicWhileAChosenTokenGetsTheKey(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		c := &env.Faulty{Client: server.Client(t)}
		c.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if slices.Contains(words, gen.HandOverSHA1) {
				panic("hook")
			}
			return run()
		})
		p, q := newProcess(t, server, "p"), newProcessOf(t, c, "q")
		first := p.acquires([]string{"job"})
		gets(t, first)
		second := q.acquires([]string{"job"}, choose)
		stands(t, server, second)
		releases(t, p, first)
		require.PanicsWithValue(t, "hook", func() { gets(t, second) })
		env.Soon(t, func() bool { return owner(t, server, "job") == "" }, "the place is given up")
	})
}

// An acquisition that gives up leaves neither a place nor a key behind.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		first, second := p.acquires([]string{"job"}), p.acquires([]string{"job"})
		gets(t, first)
		for range 3 {
			_, why := second.Try(t.Context())
			pauses(t, second, why)
		}
		require.Len(t, queues(t, server), 1)
		second.GiveUp()
		first.Interrupted() // as if user code had ended the attempt
		first.GiveUp()
		env.Soon(t, func() bool { return owner(t, server, "job") == "" && len(queues(t, server)) == 0 },
			"the key and its queue are gone")
	})
}

func queues(t *testing.T, server *env.Server) []string {
	t.Helper()
	reply := server.Do(t, "KEYS", "rlock:queue:*")
	names, err := reply.AsStrSlice()
	require.NoError(t, err)
	return names
}

// What ends an acquisition is told apart from what may pass.
func TestSetbacks(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		a := p.acquires([]string{"job"})
		_, why := a.Try(over)
		require.Equal(t, attempt.Ended, why.Kind)
		require.ErrorIs(t, why.Err, context.Canceled)
		require.Zero(t, a.count, "nothing is sent")

		server.Do(t, "LPUSH", "list", "x")
		_, why = p.acquires([]string{"list"}).Try(t.Context())
		require.Equal(t, attempt.Failed, why.Kind)
		require.ErrorContains(t, why.Err, "WRONGTYPE")

		server.Kill()
		_, why = a.Try(t.Context())
		require.Equal(t, attempt.Transient, why.Kind)
		require.True(t, why.Passes())
		_, why = p.acquires([]string{"job"}, once).Try(t.Context())
		require.Equal(t, attempt.Failed, why.Kind)
		a.GiveUp()
	})
}
