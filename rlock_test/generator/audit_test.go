package generator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// audited is what these tests need of the generator's audit.
type audited struct {
	Name string   `json:"name"`
	ACL  []string `json:"acl"`
}

// journey takes every path of a script, as a user, and fails where a call fails or
// answers something else than it must. owner is a client that may do everything;
// patience is for how long a cached answer may be stale.
type journey struct {
	keys map[string][]string // by the name in the script's header
	run  func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error
}

// goOn are the scripts that go on without some rights: they say nothing of the server's refusal, and the
// journey ends somewhere else.
var goOn = []string{"AcquireMany", "Release", "ReleaseMany", "Requeue", "Wait"}

// spare are words that no path needs, although the audit cannot know that: those who wait ask for a lease
// that ends, so that a release makes none endless.
var spare = map[string][]string{"Release": {"+persist"}}

const mine, theirs = "my token", "their token"

var queueKeys = map[string][]string{
	"lock": {"{s}lock"}, "queue": {"{s}queue"}, "waiters": {"{s}waiters"}, "holders": {"{s}holders"},
	"grants":  {"{s}grants:"},
	"counter": {"{s}fence"},
}

// caller calls scripts as one user.
type caller struct {
	ctx    context.Context
	client rueidis.Client
}

func (c caller) wait(token string, ttl time.Duration, how gen.WaitHow) (gen.WaitResult, error) {
	process := "q"
	if token == mine {
		process = "p"
	}
	return gen.New().Wait(c.ctx, c.client, gen.WaitParams{
		Lock: "{s}lock", Queue: "{s}queue", Waiters: "{s}waiters", Holders: "{s}holders", Grants: "{s}grants:",
		Counter: []string{"{s}fence"}, Token: token, TTL: ttl, Process: process, How: how,
	})
}

// takes fails where the token does not get what it wants at once.
func (c caller) takes(token string, ttl time.Duration) error {
	r, err := c.wait(token, ttl, gen.WaitHowTry)
	return errors.Join(err, expect(r.Granted, token+" gets it"))
}

// lapses has the lease of a share be over, as that of a holder that has died, while its keys stay.
func (c caller) lapses(token string) error {
	zrange := c.client.B().Zrange().Key("{s}holders").Min("0").Max("-1").Build()
	all, err := c.client.Do(c.ctx, zrange).AsStrSlice()
	for _, member := range all {
		if strings.HasSuffix(member, " "+token) {
			const longAgo = "100000000001" // in milliseconds; smaller ones are no times
			return errors.Join(err, command(c.ctx, c.client, "ZADD", "{s}holders", "XX", longAgo, member))
		}
	}
	return errors.Join(err, expect(false, token+" has a share"))
}

// joins fails where the token has no place.
func (c caller) joins(token string) error {
	r, err := c.wait(token, time.Minute, gen.WaitHowJoin)
	return errors.Join(err, expect(r.Score > 0, token+" waits"))
}

func (c caller) release(token string) error {
	freed, err := gen.New().Release(c.ctx, c.client, gen.ReleaseParams{
		Lock: "{s}lock", Queue: "{s}queue", Waiters: "{s}waiters", Holders: "{s}holders", Grants: "{s}grants:",
		Counter: []string{"{s}fence"}, Token: token,
	})
	return errors.Join(err, expect(freed == 1, token+" had something"))
}

func (c caller) requeue(token, again string, ttl time.Duration) (gen.RequeueResult, error) {
	return gen.New().Requeue(c.ctx, c.client, gen.RequeueParams{
		Lock: "{s}lock", Queue: "{s}queue", Waiters: "{s}waiters", Holders: "{s}holders", Grants: "{s}grants:",
		Counter: []string{"{s}fence"}, Token: token, Again: again, TTL: ttl, Process: "q",
	})
}

// forgets has it be long since something was heard of those who wait. Their time is even: nobody asked them.
func (c caller) forgets(tokens ...string) error {
	var all []error
	for _, token := range tokens {
		all = append(all, command(c.ctx, c.client, "HSET", "{s}waiters", token, "1 99999999999998 60000 q"))
	}
	return errors.Join(all...)
}

// shares fails where so many do not share the lock.
func (c caller) shares(holders int64) error {
	n, err := c.client.Do(c.ctx, c.client.B().Zcard().Key("{s}holders").Build()).AsInt64()
	return errors.Join(err, expect(max(n-1, 0) == holders, fmt.Sprintf("%d share it, not %d", n-1, holders)))
}

// lasts fails where the lock does not last so long, within a minute.
func (c caller) lasts(ttl time.Duration) error {
	left, err := c.client.Do(c.ctx, c.client.B().Pttl().Key("{s}lock").Build()).AsInt64()
	got := time.Duration(left) * time.Millisecond
	return errors.Join(err, expect(got > ttl-time.Minute && got < ttl+time.Minute, fmt.Sprint("it lasts ", ttl)))
}

// share is the token of a permit of a key that has limit of them.
func share(limit int, name string) string { return fmt.Sprintf("rlock:share:%d:1:%s", limit, name) }

// listening calls f while the process q listens for grants.
func listening(ctx context.Context, owner rueidis.Client, f func() error) error {
	dedicated, release := owner.Dedicate()
	defer release()
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	if err := dedicated.Do(ctx, dedicated.B().Ssubscribe().Channel("{s}grants:q").Build()).Error(); err != nil {
		return err
	}
	for {
		counts, err := owner.Do(ctx, owner.B().Arbitrary("PUBSUB", "SHARDNUMSUB", "{s}grants:q").Build()).AsIntMap()
		if err != nil {
			return err
		}
		if counts["{s}grants:q"] > 0 {
			return f()
		}
		time.Sleep(time.Millisecond)
	}
}

// holds fails where another token than this one holds the lock.
func holds(ctx context.Context, owner rueidis.Client, token string) error {
	holder, err := owner.Do(ctx, owner.B().Get().Key("{s}lock").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return errors.Join(err, expect(holder == token, "it holds the lock: "+token))
}

var journeys = map[string]journey{
	"Acquire": {
		map[string][]string{"lock": {"{s}lock"}, "queue": {"{s}queue"}, "counter": {"{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, minute := gen.New(), time.Minute
			acquire := func(token string, ttl time.Duration, counter ...string) (gen.AcquireResult, error) {
				return s.Acquire(
					ctx, client,
					gen.AcquireParams{Lock: "{s}lock", Queue: "{s}queue", Counter: counter, Token: token, TTL: ttl},
				)
			}
			free, err1 := acquire(mine, minute)                 // by the text
			own, err2 := acquire(mine, minute)                  // by the SHA1
			held, err3 := acquire(theirs, minute)               //
			kept, err4 := acquire(mine, 0)                      // own, without expiry
			fenced, err5 := acquire(mine, minute, "{s}fence")   // a counter that starts anew
			after, err6 := acquire(mine, minute, "{s}fence")    // and one that goes on
			err7 := command(ctx, owner, "SET", "{s}fence", "7") // or has fallen back
			raised, err8 := acquire(mine, minute, "{s}fence")   //
			err9 := command(ctx, owner, "DEL", "{s}lock")       //
			forever, err10 := acquire(mine, 0)                  // free, without expiry
			held2, err11 := acquire(theirs, minute, "{s}fence") // by one that never expires
			err12 := command(ctx, owner, "DEL", "{s}lock")      //
			both, err13 := acquire(theirs, minute, "{s}fence")  // free, with a fence
			batch := s.AcquireBatch(
				ctx, client, []gen.AcquireParams{{Lock: "{s}lock", Queue: "{s}queue", Token: theirs}},
			)
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13,
				batch[0].Err,
				expect(
					free.Outcome == 1 && own.Outcome == 1 && kept.Outcome == 1 &&
						forever.Outcome == 1 && batch[0].Value.Outcome == 1,
					"it is acquired",
				),
				expect(held.Outcome == 2 && held.Value > 0 && held2.Outcome == 2 && held2.Value == -1, "it is held"),
				expect(
					fenced.Value > 1e15 && after.Value > fenced.Value && raised.Value > 1e15 && both.Value > raised.Value,
					"fences rise",
				))
		},
	},
	"AcquireAll": {
		map[string][]string{"keys": {"{s}a", "{s}b", "{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s := gen.New()
			acquire := func(token string, ttl time.Duration, keys ...string) (gen.AcquireAllResult, error) {
				return s.AcquireAll(ctx, client,
					gen.AcquireAllParams{Keys: keys, Token: token, TTL: ttl, Locks: int64(min(2, len(keys)))})
			}
			free, err1 := acquire(mine, time.Minute, "{s}a", "{s}b")
			own, err2 := acquire(mine, time.Minute, "{s}a", "{s}b")
			held, err3 := acquire(theirs, time.Minute, "{s}b", "{s}a")
			kept, err4 := acquire(mine, 0, "{s}a", "{s}b")
			fenced, err5 := acquire(mine, time.Minute, "{s}a", "{s}b", "{s}fence")
			err6 := command(ctx, owner, "SET", "{s}fence", "7")
			raised, err7 := acquire(mine, time.Minute, "{s}a", "{s}b", "{s}fence")
			err8 := command(ctx, owner, "DEL", "{s}a")
			forever, err9 := acquire(mine, 0, "{s}a", "{s}b", "{s}fence")
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9,
				expect(free.Acquired && own.Acquired && kept.Acquired && forever.Acquired, "they are acquired"),
				expect(!held.Acquired && held.Held == 1 && held.Remaining > 0, "they are held"),
				expect(fenced.Fence > 1e15 && raised.Fence > 1e15 && forever.Fence > raised.Fence, "fences rise"))
		},
	},
	"AcquireMany": {
		map[string][]string{"keys": {"{s}a", "{s}b", "{s}aq", "{s}bq", "{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			acquire := func() ([]gen.AcquireManyItem, error) {
				return gen.New().AcquireMany(ctx, client, gen.AcquireManyParams{
					Keys:  []string{"{s}a", "{s}b", "{s}aq", "{s}bq", "{s}fence"},
					Words: []string{mine, "60000", theirs, ""}})
			}
			err1 := command(ctx, owner, "SET", "{s}fence", "7")
			both, err2 := acquire()
			err3 := command(ctx, owner, "SET", "{s}b", "another's")
			held, err4 := acquire()
			return errors.Join(err1, err2, err3, err4,
				expect(
					len(both) == 2 && both[0].Outcome == 1 && both[0].Value > 1e15 &&
						both[1] == gen.AcquireManyItem{Outcome: 1},
					"both are taken",
				),
				expect(
					len(held) == 2 && held[0].Outcome == 0 && held[1] == gen.AcquireManyItem{Outcome: 2, Value: -1},
					"one is another's",
				))
		},
	},
	"Attach": {
		map[string][]string{"keys": {"{s}lock", "{s}b", "{s}holders"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, all := gen.New(), caller{ctx, owner}
			attach := func(keep bool, ttl time.Duration) (gen.AttachResult, error) {
				return s.Attach(
					ctx, client,
					gen.AttachParams{
						Keys: []string{"{s}lock", "{s}b"}, Token: theirs, Keep: keep, TTL: ttl, Former: []string{mine},
					},
				)
			}
			free, err1 := attach(true, 0)
			err2 := command(ctx, owner, "MSET", "{s}lock", mine, "{s}b", mine)
			kept, err3 := attach(true, 0)
			leased, err4 := attach(false, time.Minute)
			err5 := command(ctx, owner, "MSET", "{s}lock", mine, "{s}b", mine)
			shorter, err6 := attach(false, time.Minute)
			forever, err7 := attach(false, 0)
			lease, err8 := owner.Do(ctx, owner.B().Pttl().Key("{s}b").Build()).AsInt64()
			shared := func(keep bool, ttl time.Duration) (gen.AttachResult, error) {
				return s.Attach(ctx, client, gen.AttachParams{
					Keys: []string{"{s}lock", "{s}holders"}, Token: share(3, "b"), Keep: keep, TTL: ttl,
					Former: []string{share(3, "a")},
				})
			}
			err9 := command(ctx, owner, "DEL", "{s}lock")
			err10 := errors.Join(
				all.takes(sharing("dead"), time.Minute), all.takes(sharing("a"), time.Hour),
				all.takes(sharing("c"), time.Hour),
			)
			err10 = errors.Join(err10, all.lapses(sharing("dead")))
			changed, err11 := shared(true, 0)
			err12 := all.shares(2)
			again, err13 := shared(false, 3*time.Hour) // longer than the key lasts, whatever millisecond it is
			err14 := all.lasts(6 * time.Hour)
			endless, err15 := shared(false, 0)
			err16 := all.release(sharing("b"))
			err17 := errors.Join(
				all.release(sharing("c")), all.takes(sharing("dead"), time.Minute),
				command(ctx, owner, "PERSIST", "{s}lock"), command(ctx, owner, "PERSIST", "{s}holders"),
			)
			err17 = errors.Join(err17, all.lapses(sharing("dead")))
			late, err18 := shared(false, time.Minute) // nobody has it any more
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14,
				err15, err16, err17, err18,
				holds(ctx, owner, ""),
				expect(
					free.Position == 1 && kept == gen.AttachResult{Remaining: -time.Millisecond}, "the next owner attaches",
				),
				expect(
					leased.Position == 0 && shorter.Remaining == time.Minute && forever.Position == 0 && lease == -1,
					"with another lease",
				),
				expect(
					changed.Position == 0 && again.Remaining > time.Hour &&
						endless.Remaining == -time.Millisecond && late.Position == 1,
					"and to a share",
				))
		},
	},
	"Check": {
		map[string][]string{"lock": {"{s}lock"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.CheckParams{Lock: "{s}lock"}
			free, err1 := s.Check(ctx, client, p)
			cached, err2 := s.CheckCached(ctx, client, p, time.Hour)
			err3 := command(ctx, owner, "SET", "{s}lock", mine, "PX", "60000")
			held, err4 := s.Check(ctx, client, p)
			if err := errors.Join(err1, err2, err3, err4,
				expect(!free.Valid && !cached.Value.Valid && held.V == mine, "the holder is told")); err != nil {
				return err
			}
			for start := time.Now(); ; time.Sleep(time.Millisecond) {
				cached, err := s.CheckCached(ctx, client, p, time.Hour)
				if err != nil || cached.Value.V == mine {
					return err
				}
				if time.Since(start) > patience {
					return errStaleAnswer
				}
			}
		},
	},
	"Extend": {
		map[string][]string{"keys": {"{s}lock", "{s}b", "{s}holders"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, all := gen.New(), caller{ctx, owner}
			extend := func(ttl time.Duration, keys []string, tokens ...string) ([]int64, error) {
				return s.Extend(ctx, client, gen.ExtendParams{Keys: keys, TTL: ttl, Tokens: tokens})
			}
			both, lock := []string{"{s}lock", "{s}b"}, []string{"{s}lock", "{s}holders"}
			free, err1 := extend(time.Minute, both, mine)
			err2 := command(ctx, owner, "MSET", "{s}lock", mine, "{s}b", theirs)
			one, err3 := extend(time.Minute, both[:1], mine)
			set, err4 := extend(time.Minute, both, mine)
			each, err5 := extend(0, both, mine, theirs)
			err6 := command(ctx, owner, "DEL", "{s}lock")
			err7 := errors.Join(all.takes(sharing("dead"), time.Minute), all.takes(sharing("a"), time.Minute))
			err7 = errors.Join(err7, all.lapses(sharing("dead")))
			longer, err8 := extend(2*time.Hour, lock, sharing("a"))
			err9 := errors.Join(all.shares(1), all.lasts(4*time.Hour))
			forever, err10 := extend(0, lock, sharing("a"))
			lease, err11 := owner.Do(ctx, owner.B().Pttl().Key("{s}lock").Build()).AsInt64()
			err12 := errors.Join(
				all.release(sharing("a")), all.takes(sharing("dead"), time.Minute),
				command(ctx, owner, "PERSIST", "{s}lock"), command(ctx, owner, "PERSIST", "{s}holders"),
			)
			err12 = errors.Join(err12, all.lapses(sharing("dead")))
			late, err13 := extend(time.Minute, lock, sharing("dead"))
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, holds(
				ctx, owner, "",
			),
				expect(
					slices.Equal(free, []int64{1, 2}) && len(one) == 0 && slices.Equal(set, []int64{2}) && len(each) == 0,
					"the owner extends",
				),
				expect(
					len(longer) == 0 && len(forever) == 0 && lease == -1 && slices.Equal(late, []int64{1}),
					"and who shares it",
				))
		},
	},
	"HandOver": {
		map[string][]string{"lock": {"{s}lock"}, "queue": {"{s}queue"}, "counter": {"{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s := gen.New()
			pass := func(token, next string, ttl time.Duration, counter ...string) (gen.HandOverResult, error) {
				return s.HandOver(ctx, client,
					gen.HandOverParams{Lock: "{s}lock", Queue: "{s}queue", Counter: counter, Token: token, Next: next,
						TTL: ttl, Fences: 3})
			}
			free, err1 := pass(mine, theirs, time.Minute)
			err2 := command(ctx, owner, "SET", "{s}lock", mine)
			passed, err3 := pass(mine, theirs, time.Minute, "{s}fence")
			again, err4 := pass(mine, theirs, time.Minute, "{s}fence")
			err5 := errors.Join(command(ctx, owner, "SET", "{s}fence", "7"),
				command(ctx, owner, "ZADD", "{s}queue", "1000000", "waiter"))
			forever, err6 := pass(theirs, mine, 0, "{s}fence")
			confirmed, err7 := pass(theirs, mine, 0)
			return errors.Join(err1, err2, err3, err4, err5, err6, err7,
				expect(!free.HandedOver && passed.HandedOver && again.HandedOver && forever.HandedOver &&
					confirmed.HandedOver, "the holder hands it over"),
				expect(passed.Waits == 0 && forever.Waits > 1e15, "it tells for how long another has waited"),
				expect(passed.Fence > 1e15 && again.Fence >= passed.Fence+passed.Fences && forever.Fence > 1e15,
					"fences rise"))
		},
	},
	"Inspect": {
		map[string][]string{"keys": {"{s}lock", "{s}b", "{s}holders", "{s}queue"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			all := caller{ctx, owner}
			err1 := command(ctx, owner, "SET", "{s}b", mine)
			r, err2 := gen.New().Inspect(
				ctx, client, gen.InspectParams{Keys: []string{"{s}b", "{s}lock"}, Waiters: -1},
			)
			err3 := errors.Join(all.takes(sharing("a"), time.Minute), all.takes(sharing("b"), 0), all.joins(theirs))
			one, err4 := gen.New().Inspect(
				ctx, client, gen.InspectParams{Keys: []string{"{s}lock", "{s}holders", "{s}queue"}, Waiters: 9},
			)
			return errors.Join(err1, err2, err3, err4,
				expect(
					len(r.Values) == 2 && r.Values[0].V == mine && !r.Values[1].Valid && r.Remaining[0] == -time.Millisecond,
					"holders are told",
				),
				expect(
					len(one.Members) == 2 && one.Left[1] == -time.Millisecond &&
						len(one.Waiting) == 2 && one.Waiting[0] == theirs,
					"and all about one lock",
				))
		},
	},
	"RaiseFence": {
		map[string][]string{"keys": {"{s}a", "{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.RaiseFenceParams{Keys: []string{"{s}a", "{s}fence"}, Token: mine, Fence: 7,
				Locks: 1}
			free, err1 := s.RaiseFence(ctx, client, p)
			err2 := command(ctx, owner, "SET", "{s}a", mine)
			low, err3 := s.RaiseFence(ctx, client, p)
			high, err4 := s.RaiseFence(ctx, client, p)
			return errors.Join(err1, err2, err3, err4,
				expect(free == 1 && low == 0 && high == 0, "the holder raises the counter"))
		},
	},
	"Release": {
		queueKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			c, all := caller{ctx, client}, caller{ctx, owner}
			err1 := errors.Join(command(ctx, owner, "SET", "{s}lock", mine), c.release(mine), holds(ctx, owner, ""))
			// To one who is told, and to one far behind who is asked first.
			err2 := errors.Join(all.takes(mine, time.Minute), command(ctx, owner, "SET", "{s}fence", "7"))
			err3 := told(ctx, owner, "next", patience, func() error {
				return errors.Join(all.joins("next"), c.release(mine)) // before the place is silent
			})
			err4 := errors.Join(holds(ctx, owner, "next"), all.joins("far"), all.forgets("far"))
			err5 := told(ctx, owner, "beat far", patience, func() error { return c.release("next") })
			err6 := errors.Join(holds(ctx, owner, ""), command(ctx, owner, "DEL", "{s}queue", "{s}waiters"))
			// Shares: of one whose lease was the longest, of one beside the dead, and of the last.
			err7 := errors.Join(
				all.takes(sharing("a"), 4*time.Hour), all.takes(sharing("b"), time.Hour),
				all.takes(sharing("c"), time.Hour),
			)
			err8 := errors.Join(
				c.release(sharing("a")), all.lasts(2*time.Hour), all.takes(sharing("dead"), time.Minute),
			)
			err8 = errors.Join(err8, all.lapses(sharing("dead")))
			err9 := errors.Join(c.release(sharing("c")), all.shares(1), all.joins("w"))
			err10 := told(ctx, owner, sharing("d"), patience, func() error {
				_, err := all.wait(sharing("d"), 9*time.Hour, gen.WaitHowJoin)
				c.release("w") // nobody has anything by it, but what it has kept out
				return errors.Join(err, all.lasts(18*time.Hour))
			})
			err11 := errors.Join(c.release(sharing("b")), c.release(sharing("d")), holds(ctx, owner, ""))
			known, err16 := owner.Do(ctx, owner.B().Hlen().Key("{s}waiters").Build()).AsInt64()
			err12 := errors.Join(
				all.takes(sharing("dead"), time.Minute), command(ctx, owner, "PERSIST", "{s}lock"),
				command(ctx, owner, "PERSIST", "{s}holders"),
			)
			err12 = errors.Join(err12, all.lapses(sharing("dead")))
			c.release(sharing("dead"))
			// Without a fence nobody can have the lock: it is free then, and the queue is as it was.
			err13 := errors.Join(
				holds(ctx, owner, ""), all.takes(mine, time.Minute), all.joins("last"),
				command(ctx, owner, "SET", "{s}fence", "no number"),
			)
			err14 := listening(ctx, owner, func() error { return c.release(mine) })
			left, err15 := owner.Do(ctx, owner.B().Pttl().Key("{s}queue").Build()).AsInt64()
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14,
				err15, err16,
				holds(ctx, owner, ""), expect(left > 0, "the queue is there, and ends"), expect(
					known == 0, "who was served is forgotten",
				))
		},
	},
	"ReleaseMany": {
		map[string][]string{"keys": {"{s}a", "{s}b", "{s}aq", "{s}bq"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			release := func(tokens []string, n int64, keys ...string) ([]int64, error) {
				return gen.New().ReleaseMany(ctx, client, gen.ReleaseManyParams{Keys: keys, Locks: n, Tokens: tokens})
			}
			err1 := command(ctx, owner, "MSET", "{s}a", mine, "{s}b", theirs)
			one, err2 := release([]string{mine}, 1, "{s}a")
			err3 := errors.Join(
				command(ctx, owner, "SET", "{s}a", mine), command(ctx, owner, "ZADD", "{s}bq", "1", "next"),
			)
			set, err4 := release([]string{mine, theirs}, 2, "{s}a", "{s}b", "{s}aq", "{s}bq")
			kept, err5 := owner.Do(ctx, owner.B().Get().Key("{s}b").Build()).ToString()
			return errors.Join(err1, err2, err3, err4, err5,
				expect(
					slices.Equal(one, []int64{1}) && slices.Equal(set, []int64{1, 0}) && kept == theirs,
					"the owner releases",
				))
		},
	},
	"Requeue": {
		queueKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			c, all := caller{ctx, client}, caller{ctx, owner}
			err1 := errors.Join(
				command(ctx, owner, "SET", "{s}lock", mine), command(ctx, owner, "SET", "{s}fence", "7"),
			)
			freed, err2 := c.requeue(mine, theirs, 0)
			endless, err3 := c.requeue(mine, theirs, 0)
			leased, err4 := c.requeue(mine, theirs, time.Minute)
			err5 := all.joins("next")
			var passed gen.RequeueResult
			err6 := told(
				ctx, owner, "next", patience,
				func() (err error) { passed, err = c.requeue(theirs, mine, time.Minute); return err },
			)
			waits, err7 := c.requeue(theirs, mine, time.Minute)
			err8 := errors.Join(holds(ctx, owner, "next"), all.forgets(mine), all.joins("far"), all.forgets("far"))
			err9 := told(
				ctx, owner, "beat far", patience,
				func() (err error) { _, err = c.requeue("next", "other", time.Minute); return err },
			)
			err10 := errors.Join(holds(ctx, owner, ""), command(ctx, owner, "DEL", "{s}queue", "{s}waiters"))
			// Shares, as Release gives them up.
			err11 := errors.Join(
				all.takes(sharing("a"), 4*time.Hour), all.takes(sharing("b"), time.Hour),
				all.takes(sharing("dead"), time.Minute),
			)
			err11 = errors.Join(err11, all.lapses(sharing("dead")))
			share, err12 := c.requeue(sharing("a"), "behind", time.Minute)
			err13 := errors.Join(all.shares(1), all.lasts(2*time.Hour))
			err14 := told(ctx, owner, sharing("d"), patience, func() error {
				waits := all.joins(sharing("d"))
				_, err := c.requeue("behind", "none", time.Minute)
				return errors.Join(waits, err)
			})
			last, err15 := c.requeue(sharing("b"), "x", time.Minute)
			alone, err16 := c.requeue(sharing("d"), "y", time.Minute)
			known, err17 := owner.Do(ctx, owner.B().Hexists().Key("{s}waiters").Field(sharing("d")).Build()).AsBool()
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14,
				err15, err16, err17,
				expect(!known, "who was served is forgotten"),
				expect(
					freed.Freed && freed.Granted && endless.Granted && leased.Granted && leased.Fence > 1e15,
					"the second token has it",
				),
				expect(passed.Freed && passed.Score > 1 && waits.Score == passed.Score, "the second token waits"),
				expect(share.Freed && share.Score > 1 && last.Freed && alone.Freed, "a share is given up"))
		},
	},
	"Wait": {
		queueKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			c, all := caller{ctx, client}, caller{ctx, owner}
			err1 := command(ctx, owner, "SET", "{s}fence", "7")
			free, err2 := c.wait(mine, 0, gen.WaitHowJoin)
			kept, err3 := c.wait(mine, 0, gen.WaitHowHeartbeat)
			queued, err4 := c.wait(theirs, time.Minute, gen.WaitHowJoin)
			beat, err5 := c.wait(theirs, time.Minute, gen.WaitHowHeartbeat)
			err6 := command(ctx, owner, "DEL", "{s}lock")
			err7 := told(
				ctx, owner, theirs, patience,
				func() error { _, err := c.wait("none", time.Minute, gen.WaitHowTry); return err },
			)
			err8 := errors.Join(
				holds(ctx, owner, theirs), all.joins("far"), all.forgets("far"), command(ctx, owner, "DEL", "{s}lock"),
			)
			err9 := told(
				ctx, owner, "beat far", patience,
				func() error { _, err := c.wait("none", time.Minute, gen.WaitHowTry); return err },
			)
			err10 := errors.Join(holds(ctx, owner, ""), command(ctx, owner, "DEL", "{s}queue", "{s}waiters"))
			// Shares: the first, one beside it that lasts longer, one for ever, and what each has is confirmed.
			err11 := errors.Join(c.takes(sharing("a"), time.Hour), all.takes(sharing("dead"), time.Minute))
			err11 = errors.Join(err11, all.lapses(sharing("dead")))
			err12 := errors.Join(c.takes(sharing("b"), 4*time.Hour), all.shares(2), all.lasts(8*time.Hour))
			waits, err13 := c.wait("w", time.Minute, gen.WaitHowJoin) // for the longest of them
			err14 := errors.Join(
				command(ctx, owner, "DEL", "{s}queue", "{s}waiters"), c.takes(sharing("b"), 0), all.lasts(0),
			)
			err15 := errors.Join(
				all.release(sharing("a")), all.release(sharing("b")), all.takes(sharing("dead"), time.Minute),
				command(ctx, owner, "PERSIST", "{s}lock"), command(ctx, owner, "PERSIST", "{s}holders"),
			)
			err15 = errors.Join(err15, all.lapses(sharing("dead")))
			err16 := c.takes(mine, time.Minute) // nobody has it any more
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14,
				err15, err16,
				expect(free.Granted && free.Fence > 1e15 && kept.Granted && kept.Fence > free.Fence, "it is granted"),
				expect(!queued.Granted && queued.Score > 0 && beat.Score == queued.Score, "it is queued"),
				expect(waits.Remaining > 3*time.Hour, "it waits for the longest lease"))
		},
	},
}

// sharing is the token of one of three permits.
func sharing(name string) string { return share(3, name) }

// told calls f while the process q listens for grants, and fails where it is not told of a token.
func told(
	ctx context.Context, owner rueidis.Client, token string, patience time.Duration, f func() error,
) error {
	dedicated, release := owner.Dedicate()
	defer release()
	heard := make(chan struct{}, 1)
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if strings.HasSuffix(m.Message, token) {
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	}})
	if err := dedicated.Do(ctx, dedicated.B().Ssubscribe().Channel("{s}grants:q").Build()).Error(); err != nil {
		return err
	}
	if err := listening(ctx, owner, f); err != nil {
		return err
	}
	select {
	case <-heard:
		return nil
	case <-time.After(patience):
		return expect(false, "the process is told of "+token)
	}
}

var errStaleAnswer = errors.New("the cached answer is stale")

func expect(ok bool, what string) error {
	if !ok {
		return fmt.Errorf("not so: %s", what)
	}
	return nil
}

func command(ctx context.Context, client rueidis.Client, words ...string) error {
	return client.Do(ctx, client.B().Arbitrary(words...).Build()).Error()
}

// The rule that the audit gives for a script is enough for all it does, and every
// word of it is needed.
func TestAuditRuleIsEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-audit", "-json")
	require.NoError(t, err, stderr)
	var scripts []audited
	require.NoError(t, json.Unmarshal([]byte(stdout), &scripts))
	require.Len(t, scripts, len(journeys))
	env.Each(t, func(t *testing.T, e env.Engine) {
		for _, script := range scripts {
			t.Run(script.Name, func(t *testing.T) {
				t.Parallel()
				trip, known := journeys[script.Name]
				require.True(t, known)
				server := e.Start(t)
				owner := server.Client(t)
				// A client with a cache asks for tracking as soon as it connects.
				option := server.Option()
				option.Username, option.Password = "app", "secret"
				option.DisableCache = !slices.Contains(script.ACL, "+client|tracking")
				require.NoError(t, travel(t, server, owner, option, trip, script.ACL, 10*time.Second))
				for i, word := range script.ACL {
					err := travel(t, server, owner, option, trip, slices.Delete(slices.Clone(script.ACL), i, i+1),
						500*time.Millisecond)
					switch word {
					case "+client|caching":
						require.ErrorIs(t, err, errStaleAnswer)
					case "+multi": // the client sees a reply that is none
						require.Error(t, err, "%s is not needed", word)
					default:
						if slices.Contains(spare[script.Name], word) {
							require.NoError(t, err, word)
							continue
						}
						require.Error(t, err, "%s is not needed", word)
						if slices.Contains(goOn, script.Name) && strings.Contains(err.Error(), "not so") {
							continue
						}
						require.True(t, errors.Is(err, rueidis.ErrDoCacheAborted) || env.NoPermission.MatchString(err.Error()),
							"%s: %v", word, err)
					}
				}
			})
		}
	})
}

var entryRule = regexp.MustCompile(`^([~&])<(\w+)>(\*?)$`)

// travel goes on a journey as a user with these rules, on a server that knows no
// script and no key.
func travel(t *testing.T, server *env.Server, owner rueidis.Client, option rueidis.ClientOption, trip journey,
	rules []string, patience time.Duration) error {
	t.Helper()
	server.Do(t, "FLUSHALL")
	server.Do(t, "SCRIPT", "FLUSH")
	words := []string{"ACL", "SETUSER", "app", "reset", "on", ">secret"}
	for _, rule := range rules {
		entry := entryRule.FindStringSubmatch(rule) // ~<lock>, &<grants>*
		if entry == nil {
			words = append(words, rule)
			continue
		}
		keys := trip.keys[entry[2]]
		require.NotEmpty(t, keys, rule)
		for _, key := range keys {
			words = append(words, entry[1]+key+entry[3])
		}
	}
	server.Do(t, words...)
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer client.Close()
	return trip.run(t.Context(), client, owner, patience)
}

// What AUDIT.md says of Load is enough and needed.
func TestAuditRuleForLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "gen", "AUDIT.md"))
	require.NoError(t, err)
	said := regexp.MustCompile("which needs `([^`]+)` to connect. Load also needs\n`([^`]+)`").FindSubmatch(text)
	require.NotNil(t, said)
	connect, load := string(said[1]), string(said[2])
	for _, word := range clusterWords(t) { // which TestRuleOnACluster tries
		require.Contains(t, string(text), "`"+word+"`")
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">secret", connect)
		client, err := rueidis.NewClient(asApp(server))
		require.NoError(t, err)
		defer client.Close()
		err = gen.New().Load(t.Context(), client)
		require.Regexp(t, env.NoPermission, fmt.Sprint(err))
		server.Do(t, "ACL", "SETUSER", "app", load)
		require.NoError(t, gen.New().Load(t.Context(), client))

		server.Do(t, "ACL", "SETUSER", "app", "-"+strings.TrimPrefix(connect, "+"))
		_, err = rueidis.NewClient(asApp(server))
		require.Regexp(t, env.NoPermission, fmt.Sprint(err))
	})
}

const sortedScript = `-- mode: read
-- KEYS[1] ids key
-- returns: []string
-- allow: undeclared-key the weights stand in keys of their own
return redis.call('SORT_RO', KEYS[1], 'BY', 'weight_*')
`

const picturedScript = `-- mode: read
-- KEYS[1] ids key
-- returns: []string?
-- allow: undeclared-key so do the texts
return redis.call('SORT_RO', KEYS[1], 'BY', 'nosort', 'GET', 'text_*')
`

const ownSortScript = `-- mode: read
-- KEYS[1] ids key
-- returns: []string
return redis.call('SORT_RO', KEYS[1], 'BY', 'nosort')
`

// SORT with a pattern needs the right to read every key, which the audit says, and SORT
// without one does not.
func TestAuditRuleForPatterns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sources := map[string]string{"Sorted": sortedScript, "Pictured": picturedScript, "Own": ownSortScript}
	for name, text := range sources {
		require.NoError(t, os.WriteFile(filepath.Join(dir, strings.ToLower(name)+".lua"), []byte(text), 0o666))
	}
	stdout, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-audit", "-json", "-scripts", dir)
	require.NoError(t, err, stderr)
	var scripts []audited
	require.NoError(t, json.Unmarshal([]byte(stdout), &scripts))
	require.Len(t, scripts, len(sources))
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "RPUSH", "ids", "2", "1")
		server.Do(t, "MSET", "weight_1", "1", "weight_2", "2", "text_1", "one", "text_2", "two")
		for _, script := range scripts {
			const everything = "%R~*"
			require.Equal(t, script.Name != "Own", slices.Contains(script.ACL, everything), script.Name)
			for _, without := range []string{"", everything} {
				rule := []string{"ACL", "SETUSER", "app", "reset", "on", ">secret"}
				for _, word := range script.ACL {
					if word != without {
						rule = append(rule, strings.Replace(word, "~<ids>", "~ids", 1))
					}
				}
				server.Do(t, rule...)
				client, err := rueidis.NewClient(asApp(server))
				require.NoError(t, err)
				err = client.Do(t.Context(),
					client.B().Eval().Script(sources[script.Name]).Numkeys(1).Key("ids").Build()).Error()
				client.Close()
				if without == everything && script.Name != "Own" {
					require.ErrorContains(t, err, "denied due to insufficient ACL permissions", script.Name)
				} else {
					require.NoError(t, err, script.Name)
				}
			}
		}
	})
}
