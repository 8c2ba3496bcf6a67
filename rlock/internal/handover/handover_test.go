package handover_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/handover"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

const ttl = time.Minute

// caller has a ticket, and the lock when it is its turn.
type caller struct {
	ticket queue.Ticket[handover.Request, handover.Grant, *caller]
	claim  remote.Claim
	lease  terms.Terms
	shown  bool // somebody knows the token
	lent   int
}

func (c *caller) Deadline() clock.Instant { return c.lease.Deadline() }
func (c *caller) Over(clock.Instant) bool { return false }

func (c *caller) Lend(next handover.Request, now clock.Instant) (clock.Instant, bool) {
	if c.shown || !next.Fits(&c.lease, now) {
		return 0, false
	}
	c.lent++
	return c.lease.Deadline(), true
}

func (c *caller) TakeBack() { c.lent-- }
func (c *caller) Lent() any { return nil }

// process is a process whose callers hand a lock over.
type process struct {
	server *remote.Server
	grants *notify.Grants
	queue  *queue.Queue[handover.Request, handover.Grant, *caller]
}

func newProcess(t *testing.T, server *env.Server, name string, turn time.Duration) *process {
	t.Helper()
	client := server.Client(t)
	p := &process{remote.NewServer(client, gen.New(gen.WithoutRetry()), name), nil, queue.New[handover.Request, handover.Grant, *caller](turn)}
	t.Cleanup(func() { p.server.Close(time.Second) })
	p.grants = notify.NewGrants(t.Context(), client, p.server.Queues().Channel, func(notify.Grant) {})
	t.Cleanup(p.grants.Close)
	require.NoError(t, p.grants.Channel("").Listen(t.Context()))
	return p
}

// request is that of most callers.
var request = handover.Request{TTL: ttl, Extends: true, Inherits: true}

// joins returns a caller in the queue of the process for a key.
func (p *process) joins(key string, r handover.Request) *caller {
	c := &caller{claim: remote.One(key)}
	c.lease.Prepare(r.TTL, "")
	p.queue.Join(&c.ticket, key, r, clock.Now())
	return c
}

// holds returns a caller that has the lock.
func (p *process) holds(t *testing.T, key string) *caller {
	t.Helper()
	c := p.joins(key, request)
	c.lease.SetToken(remote.NewToken(""))
	a, err := p.server.Acquire(t.Context(), &c.claim, remote.Request{Token: c.lease.Token(), TTL: ttl})
	require.NoError(t, err)
	require.True(t, a.Acquired)
	c.lease.Start(clock.LeaseEnd(a.Sent, ttl))
	c.ticket.Hold(c, clock.Now())
	return c
}

// gives returns the hand-over of a caller's lock.
func (p *process) gives(c *caller) *handover.Handover[*caller] {
	h := &handover.Handover[*caller]{
		Server: p.server, Grants: p.grants, Background: context.Background(), From: c,
		Ticket: &c.ticket, Claim: &c.claim, Terms: &c.lease, As: request, Now: clock.Now(),
	}
	h.Has.Token = c.lease.Token()
	return h
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

// next has the hand-over go to the next caller, and returns what that one gets.
func next(t *testing.T, h *handover.Handover[*caller], c *caller) (handover.Grant, queue.Readiness) {
	t.Helper()
	require.True(t, h.Give(t.Context()))
	return c.ticket.Ready()
}

// A caller who wants the same lease goes on with it and its token. Another gets a token of its own.
func TestGive(t *testing.T) {
	t.Parallel()
	other := func(change func(*handover.Request)) handover.Request {
		r := request
		change(&r)
		return r
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p", time.Hour)
		for key, c := range map[string]struct {
			next   handover.Request
			shown  bool
			shares bool
		}{
			"the same lease":     {next: request, shares: true},
			"a token of its own": {next: other(func(r *handover.Request) { r.Inherits = false })},
			"another TTL":        {next: other(func(r *handover.Request) { r.TTL = time.Hour })},
			"another owner":      {next: other(func(r *handover.Request) { r.Owner = "other" })},
			"a fence":            {next: other(func(r *handover.Request) { r.Fenced = true })},
			"a known token":      {next: request, shown: true},
		} {
			first, now := p.holds(t, key), clock.Now()
			first.shown = c.shown
			second := p.joins(key, c.next)
			before := server.ScriptCalls(t)
			g, ready := next(t, p.gives(first), second)
			require.Equal(t, queue.HandedOver, ready, key)
			require.Equal(t, c.shares, g.Token == first.lease.Token(), key)
			require.Equal(t, c.shares, before == server.ScriptCalls(t), key)
			require.Equal(t, g.Token, owner(t, server, key), key)
			require.Equal(t, c.next.Fenced, g.Fence != 0, key)
			require.GreaterOrEqual(t, g.Deadline, now.After(ttl*9/10), key)
			require.Zero(t, g.Unanswered, key)
		}
	})
}

// If nobody waits, or the release has no time left, the caller releases the key, which still has
// the token. The next caller then asks the server itself.
func TestGiveNobody(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		p := newProcess(t, e.Start(t), "p", time.Hour)
		first := p.holds(t, "job")
		h := p.gives(first)
		require.False(t, h.Give(t.Context()))

		second := p.joins("job", handover.Request{TTL: time.Hour})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, h.Give(ended))
		require.False(t, h.Freed)
		require.Equal(t, first.lease.Token(), h.Has.Token)
		first.ticket.Leave()
		_, ready := second.ticket.Ready()
		require.Equal(t, queue.Front, ready)
	})
}

// When the turn is over, the process that waits first gets the key, and the next caller of this
// process a place behind it. If no process waits, that caller gets the key.
func TestTurnIsOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p, q := newProcess(t, server, "p", 0), newProcess(t, server, "q", 0)
		first, second := p.holds(t, "job"), p.joins("job", request)
		g, ready := next(t, p.gives(first), second)
		require.Equal(t, queue.HandedOver, ready)
		require.NotEqual(t, first.lease.Token(), g.Token)
		require.Equal(t, g.Token, owner(t, server, "job"))

		second.lease.SetToken(g.Token)
		second.lease.Start(g.Deadline)
		second.ticket.Hold(second, clock.Now())
		claim := remote.One("job")
		elsewhere := place.New(q.server, q.grants, &claim, request.Place())
		held, _, err := elsewhere.Ask(t.Context())
		require.NoError(t, err)
		require.False(t, held)
		third, h := p.joins("job", request), p.gives(second)
		require.True(t, h.Give(t.Context()))
		require.True(t, h.Freed)
		require.Equal(t, elsewhere.Token(), owner(t, server, "job"))
		second.ticket.Leave()
		g, ready = third.ticket.Ready()
		require.Equal(t, queue.Front, ready)
		require.NotNil(t, g.Place)
		require.NotZero(t, g.Place.Score())
	})
}

// hook does something when a lock is lent.
type hook struct {
	*caller
	lent func()
}

func (h hook) Lend(next handover.Request, now clock.Instant) (clock.Instant, bool) {
	deadline, lent := h.caller.Lend(next, now)
	h.lent()
	return deadline, lent
}

// The lock goes to the one after a caller who leaves in that moment. If there is none,
// FreeUnwanted frees the key from the token that was made for the caller who left.
func TestNextHasLeft(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		p := newProcess(t, server, "p", time.Hour)
		first, second, third := p.holds(t, "job"), p.joins("job", request), p.joins("job", request)
		h := p.gives(first)
		h.From = hook{first, func() { second.ticket.Leave() }}
		g, ready := next(t, h, third)
		require.Equal(t, queue.HandedOver, ready)
		require.Equal(t, first.lease.Token(), g.Token)
		require.Equal(t, 1, first.lent, "it was taken back once, and then lent to the third")

		last := p.holds(t, "other")
		require.NoError(t, p.gives(last).FreeUnwanted(t.Context()))
		require.Empty(t, owner(t, server, "other"))
	})
}

// A lease fits if nearly all of it is left, or half if its next holder extends it anyway.
func TestFits(t *testing.T) {
	t.Parallel()
	const never = clock.NoExpiry
	for name, c := range map[string]struct {
		ttl, next, over time.Duration
		extends, fits   bool
	}{
		"at once":             {10 * time.Second, 10 * time.Second, 0, false, true},
		"a hundredth is over": {5 * time.Second, 5 * time.Second, 50 * time.Millisecond, false, true},
		"more is over":        {5 * time.Second, 5 * time.Second, 51 * time.Millisecond, false, false},
		"0.1 s is over":       {time.Hour, time.Hour, 101 * time.Millisecond, false, false},
		"half is over":        {10 * time.Second, 10 * time.Second, 5 * time.Second, true, true},
		"more than half is":   {10 * time.Second, 10 * time.Second, 5*time.Second + 1, true, false},
		"another TTL":         {10 * time.Second, 9 * time.Second, 0, true, false},
		"without an end":      {never, never, 0, true, false},
	} {
		var l terms.Terms
		l.Prepare(c.ttl, "token")
		sent := clock.Now()
		l.Start(clock.LeaseEnd(sent, c.ttl))
		r := handover.Request{TTL: c.next, Extends: c.extends}
		require.Equal(t, c.fits, r.Fits(&l, sent.After(c.over)), name)
	}
}
