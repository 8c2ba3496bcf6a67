package fuzz

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// FuzzOptions: whatever a call is given, it refuses what cannot be right before
// anything is sent, and nothing else.
func FuzzOptions(f *testing.F) {
	// Bytes: answer, the time in it, cluster, default options, no context, call, options, keys.
	for option := range byte(optionKinds) {
		for detail := range byte(12) {
			call := (option + detail) % 7
			f.Add([]byte{detail % 3, 9, detail % 2, 0, 0, call, 1, option, detail, 9, detail, 0, 1, 1, 1})
			f.Add([]byte{detail % 3, 9, 0, 1, option, detail, 9, detail, 0, 0, call, 0, 1, 1, 1})
		}
	}
	for call := range byte(callKinds) {
		for key := range byte(8) {
			f.Add([]byte{0, 9, key % 2, 0, 0, call, 0, 2, key, 1, 2})
		}
		f.Add([]byte{0, 9, 0, 0, 7, call, 0, 1, 1, 2})
		f.Add([]byte{0, 9, 1, 0, 0, call, 1, 7, 2, 1, 2})       // keys in several slots
		f.Add([]byte{0, 9, 1, 0, 0, call, 2, 2, 2, 7, 2, 1, 2}) // and a token
		f.Add([]byte{0, 9, 0, 0, 0, call, 2, 0, 0, 4, 1, 1, 1}) // no end, and extended
	}
	// TryAcquire of key "a" with WithMaxHold, WithStopBefore or WithMinHold: of the call with a lease of 1ms,
	// or of the Locker. And then Extend without an end, by 1ms or by a minute.
	for limit := byte(14); limit < 17; limit++ {
		for _, d := range []byte{10, 11} { // 1ms, and a minute
			for _, ttl := range []byte{0, 10, 11} {
				f.Add([]byte{2, 9, 0, 0, 0, 1, 2, 0, 10, limit, d, 1, ttl})
				f.Add([]byte{2, 9, 0, 1, limit, d, 0, 1, 0, 1, ttl})
			}
		}
	}
	// TryAcquire of key "a" with WithTTL(NoExpiry) in the Locker's options and
	// WithToken("token") in the call's, and then Extend by 1ms.
	f.Add([]byte{2, 9, 0, 1, 0, 0, 0, 1, 1, 2, 2, 1, 10})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		kind, left := s.of(3), s.number()
		answer := []func(string) value{refused, held(10, left), granted}[kind]
		onPuppet(t, answer, quiet, func(t *testing.T, client rueidis.Client, p *puppet) {
			cluster := s.of(2) == 1
			if cluster {
				client = clustered{client}
			}
			defaults := &chosen{locker: true, terms: terms{lease: rlock.DefaultTTL}}
			defaults.draw(s)
			locker, err := rlock.New(client, defaults.ofLocker...)
			defaults.judge(t, err, p, 0)
			if err != nil {
				return
			}
			t.Cleanup(locker.Close)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := &callOf{chosen: chosen{prefix: defaults.prefix, crossSlot: defaults.crossSlot, terms: defaults.terms},
				source: s, locker: locker, cluster: cluster}
			if s.of(8) == 7 {
				ctx = nil
			}
			before := p.calls()
			err = c.call(ctx)
			c.judge(t, err, p, before)
			if c.lock != nil {
				extended := &chosen{}
				ttl := extended.ttl(s)
				before := p.calls()
				extended.sends = c.lock.Err() == nil
				// The certain part of a lease is a little shorter, as package clock says.
				certain := ttl - ttl/1000 - time.Millisecond
				early := ttl < c.lease && c.minHold > 0 && certain < c.minHold
				// Others may count on the longer lease of a token that the caller chose.
				extended.wrong = extended.wrong || extended.sends && (c.token && ttl < c.lease || c.clash(ttl) || early)
				err := c.lock.Extend(t.Context(), ttl)
				extended.judge(t, err, p, before)
			}
		})
	})
}

func refused(string) value { return value{kind: '-', text: "ERR no", wire: "-ERR no\r\n"} }

// granted answers that a lock is acquired.
func granted(sha string) value {
	if sha == gen.AcquireSHA1 {
		return taken
	}
	return joined
}

// held answers a few times that a lock is held, then nothing good.
func held(times int, left int64) func(sha string) value {
	return func(sha string) value {
		if times--; times < 0 {
			return refused(sha)
		}
		if sha == gen.AcquireSHA1 {
			return reply(gen.AcquireResult{Outcome: 2, Value: left})
		}
		return reply(gen.WaitResult{Remaining: time.Duration(left)})
	}
}

// clustered passes for the client of a cluster.
type clustered struct{ rueidis.Client }

func (clustered) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// chosen are options, and what is known of them.
type chosen struct {
	opts      []rlock.Option
	ofLocker  []rlock.LockerOption
	locker    bool // they are for New
	wrong     bool // something has to be refused
	sends     bool // a call sends something if nothing is
	prefix    string
	crossSlot bool
	token     bool
	owner     bool
	endless   bool
	extends   bool
	terms
}

// terms are what limits the lease of a lock, and the lease.
type terms struct{ lease, minHold, maxHold, stopBefore time.Duration }

// clash reports whether a lease of ttl does not fit the upper limits.
func (l terms) clash(ttl time.Duration) bool {
	endless := ttl == rlock.NoExpiry
	return l.maxHold > 0 && l.maxHold < ttl || endless && l.maxHold > 0 ||
		!endless && l.stopBefore > ttl/4
}

const (
	optionKinds = 19
	callKinds   = 13
)

func (c *chosen) draw(s *source) {
	for range s.of(4) {
		before := *c
		drawn := c.option(s)
		if option, is := drawn.(rlock.LockerOption); c.locker && (is || drawn == nil) {
			c.ofLocker = append(c.ofLocker, option)
		} else if option, is := drawn.(rlock.Option); !c.locker && (is || drawn == nil) {
			c.opts = append(c.opts, option)
		} else {
			*c = before // the compiler refuses it
		}
	}
	c.wrong = c.wrong || c.endless && c.extends || c.owner && c.token ||
		c.clash(c.lease) || c.lease < c.minHold
}

func (c *chosen) option(s *source) any {
	switch s.of(optionKinds) {
	case 0:
		ttl := c.ttl(s)
		c.lease, c.endless = ttl, ttl == rlock.NoExpiry
		return rlock.WithTTL(ttl)
	case 1:
		return rlock.WithRetry(c.retry(s))
	case 2:
		token := s.text()
		c.token, c.wrong = true, c.wrong || token == ""
		return rlock.WithToken(token)
	case 3:
		c.prefix = s.name()
		return rlock.WithPrefix(c.prefix)
	case 4:
		c.extends = s.of(2) == 1
		return rlock.WithAutoExtend(c.extends)
	case 5:
		return rlock.WithFence(s.of(2) == 1)
	case 6:
		return rlock.WithUniqueToken(true)
	case 7:
		c.crossSlot = true
		return rlock.WithCrossSlot(true)
	case 8:
		text := strings.Repeat([]string{"x", " ", "é", "\n", "\xff"}[s.of(5)], s.of(6)*52)
		c.wrong = c.wrong || text == "" || len(text) > 256 || !utf8.ValidString(text) ||
			strings.Contains(text, "\n")
		c.owner = true
		return rlock.WithOwner(text)
	case 9:
		turn := time.Duration(s.number())
		c.wrong = c.wrong || turn < 0
		return rlock.WithTurn(turn)
	case 10:
		ttl := time.Duration(s.number())
		c.wrong = c.wrong || ttl < time.Millisecond
		return rlock.WithCacheTTL(ttl)
	case 11:
		hook := []*rlock.Invalidations{nil, rlock.NewInvalidations()}[s.of(2)]
		c.wrong = c.wrong || hook == nil
		return rlock.WithInvalidations(hook)
	case 12:
		return rlock.WithQueue(s.of(2) == 1)
	case 13:
		barging := time.Duration(s.number())
		c.wrong = c.wrong || barging < 0 || barging > time.Second/2 || barging%time.Millisecond != 0
		return rlock.WithBarging(barging)
	case 14:
		c.maxHold = time.Duration(s.number())
		c.wrong = c.wrong || c.maxHold < 0
		return rlock.WithMaxHold(c.maxHold)
	case 15:
		c.stopBefore = time.Duration(s.number())
		c.wrong = c.wrong || c.stopBefore < 0
		return rlock.WithStopBefore(c.stopBefore)
	case 16:
		c.minHold = time.Duration(s.number())
		c.wrong = c.wrong || c.minHold < 0 || c.minHold == rlock.NoExpiry || c.minHold%time.Millisecond != 0
		return rlock.WithMinHold(c.minHold)
	case 17:
		observer := []rlock.Observer{
			nil, rlock.ObserverFunc(nil), rlock.ObserverFunc(func(context.Context, rlock.Event) {}),
		}[s.of(3)]
		c.wrong = c.wrong || !observes(observer)
		return rlock.WithObserver(observer)
	default:
		c.wrong = true
		return nil
	}
}

func observes(o rlock.Observer) bool {
	f, is := o.(rlock.ObserverFunc)
	return o != nil && (!is || f != nil)
}

func (c *chosen) ttl(s *source) time.Duration {
	ttl := time.Duration(s.number())
	c.wrong = c.wrong || ttl != rlock.NoExpiry && (ttl < time.Millisecond || ttl%time.Millisecond != 0)
	return ttl
}

func (c *chosen) retry(s *source) (r rlock.Retry) {
	first, second := time.Duration(s.number()), time.Duration(s.number())
	endless := false
	switch s.of(5) {
	case 0:
		c.wrong = true
	case 1:
		c.wrong, endless = c.wrong || first <= 0, first == rlock.NoExpiry
		r = rlock.Fixed(first)
	case 2:
		c.wrong = c.wrong || first <= 0 || second < first
		r = rlock.Exponential(first, second)
	case 3:
		c.wrong = true
		r = rlock.RetryFunc(nil)
	default:
		r = rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) { return second, a.Number < 8 })
	}
	if s.of(2) == 1 {
		n := int(s.number())
		c.wrong = c.wrong || n < 1 || n > 1 && endless
		r = r.MaxAttempts(n)
	}
	if s.of(2) == 1 {
		d := time.Duration(s.number())
		c.wrong = c.wrong || d <= 0
		r = r.MaxTime(d)
	}
	return r
}

// name is a key or a prefix, of which some are another's.
func (s *source) name() string {
	names := []string{"", "a", "b", "{a}b", "rlock:fence:", "rlock:fence:{", "{", "\x00"}
	if i := s.of(2 * len(names)); i < len(names) {
		return names[i]
	}
	return s.text()
}

// judge checks that a call was refused, and nothing sent, exactly if something was
// wrong.
func (c *chosen) judge(t *testing.T, err error, p *puppet, before int) {
	t.Helper()
	if !c.wrong {
		require.NotErrorIs(t, err, rlock.ErrInvalid)
		require.Equal(t, c.sends, p.calls() > before)
		return
	}
	require.ErrorIs(t, err, rlock.ErrInvalid)
	require.ErrorAs(t, err, new(*rlock.ArgumentError))
	require.Equal(t, before, p.calls(), "nothing is sent")
}

// callOf is a call with options.
type callOf struct {
	chosen
	*source
	locker  *rlock.Locker
	cluster bool
	lock    *rlock.Lock // that it has acquired
}

// call makes some call. The first of them take options.
func (c *callOf) call(ctx context.Context) (err error) {
	kind := c.of(callKinds)
	if kind < 7 {
		c.draw(c.source)
	}
	c.sends = true
	c.wrong = c.wrong || ctx == nil
	nothing := func(context.Context, *rlock.Lock) error { return nil }
	switch kind {
	case 0:
		c.lock, err = c.locker.Acquire(ctx, c.key(), c.opts...)
	case 1:
		c.lock, err = c.locker.TryAcquire(ctx, c.key(), c.opts...)
	case 2:
		c.lock, err = c.locker.AcquireAll(ctx, c.set(), c.opts...)
	case 3:
		c.lock, err = c.locker.TryAcquireAll(ctx, c.set(), c.opts...)
	case 4:
		keys := c.keys()
		c.sends = len(keys) > 0
		_, err = c.locker.TryAcquireEach(ctx, keys, c.opts...)
	case 5:
		err = c.locker.Do(ctx, c.key(), nothing, c.opts...)
	case 6:
		err = c.locker.DoAll(ctx, c.set(), nothing, c.opts...)
	case 7:
		_, err = c.locker.Check(ctx, c.key())
	case 8:
		_, err = env.Admin(c.locker).Inspect(ctx, c.key())
	case 9:
		err = c.locker.WaitFree(ctx, c.key())
	case 10:
		err = env.Admin(c.locker).ForceRelease(ctx, c.key(), c.owner())
	default:
		c.prefix = ""
		var h rlock.Handoff
		c.crossSlot = true // the lock was one before
		if err = h.UnmarshalText(env.HandoffText(c.owner(), uint64(c.number()), c.set()...)); err == nil {
			_, err = c.locker.Attach(ctx, h)
		}
	}
	return err
}

func (c *callOf) owner() string {
	token := c.text()
	c.wrong = c.wrong || token == ""
	return token
}

func (c *callOf) key() string {
	key := c.name()
	full := c.prefix + key
	c.wrong = c.wrong || key == "" || strings.HasPrefix(full, "rlock:fence:{")
	return key
}

func (c *callOf) keys() (keys []string) {
	for range c.of(4) {
		key := c.key()
		c.wrong = c.wrong || slices.Contains(keys, key)
		keys = append(keys, key)
	}
	return keys
}

// set returns keys that are taken together.
func (c *callOf) set() []string {
	keys := c.keys()
	c.wrong = c.wrong || len(keys) == 0
	for _, key := range keys {
		if c.cluster && redislua.Slot(c.prefix+key) != redislua.Slot(c.prefix+keys[0]) {
			c.wrong = c.wrong || !c.crossSlot || c.token
		}
	}
	return keys
}
