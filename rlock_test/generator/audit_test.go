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

// survives has for a script the words without which it goes on: it says nothing of the server's
// refusal, and the journey ends somewhere else.
var survives = map[string][]string{
	"Join":     {"&<grants>*", "+pubsub|shardnumsub", "+spublish", "+zcard", "+zrem"},
	"Pass":     {"&<grants>*", "+pexpire", "+incr", "+time", "+set", "+pubsub|shardnumsub", "+spublish", "+zrange", "+zcard", "+zrem", "+zadd"},
	"PassMany": {"&<grants>*", "+del", "+get", "+pexpire", "+incr", "+time", "+set", "+pubsub|shardnumsub", "+spublish", "+zrange", "+zcard", "+zrem", "+zadd"},
	"PassAll":  {"&<grants>*", "+pexpire", "+incr", "+time", "+set", "+pubsub|shardnumsub", "+spublish", "+zrange", "+zcard", "+zrem", "+zadd"},
	"Try":      {"+incr", "+set", "+time"},
	"TryMany":  {"+get", "+incr", "+pttl", "+set", "+time"},
	"Requeue":  {"&<grants>*", "+incr", "+time", "+set", "+exists", "+pubsub|shardnumsub", "+spublish", "+zrange", "+zcard", "+zrem", "+zadd"},
}

const mine, theirs = "my token", "their token"

var queueKeys = map[string][]string{"lock": {"{s}lock"}, "queue": {"{s}queue"}, "grants": {"{s}grants:"}, "counter": {"{s}fence"}}

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
		map[string][]string{"lock": {"{s}lock"}, "counter": {"{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, minute := gen.New(), time.Minute
			acquire := func(token string, ttl time.Duration, counter ...string) (gen.AcquireResult, error) {
				return s.Acquire(ctx, client, gen.AcquireParams{Lock: "{s}lock", Counter: counter, Token: token, TTL: ttl})
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
			batch := s.AcquireBatch(ctx, client, []gen.AcquireParams{{Lock: "{s}lock", Token: theirs}})
			err14 := command(ctx, owner, "DEL", "{s}lock", "{s}fence")
			err15 := command(ctx, owner, "LPUSH", "{s}fence", "no counter")
			_, err16 := acquire(mine, minute, "{s}fence") // free again
			if err16 != nil && strings.HasPrefix(err16.Error(), "gen: Acquire: WRONGTYPE") {
				err16 = nil
			}
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, batch[0].Err, err14, err15, err16,
				expect(free.Acquired && own.Acquired && kept.Acquired && forever.Acquired && batch[0].Value.Acquired, "it is acquired"),
				expect(!held.Acquired && held.Remaining > 0 && !held2.Acquired && held2.Remaining == -time.Millisecond, "it is held"),
				expect(fenced.Fence > 1e15 && after.Fence > fenced.Fence && raised.Fence > 1e15 && both.Fence > raised.Fence, "fences rise"))
		},
	},
	"AcquireAll": {
		map[string][]string{"keys": {"{s}a", "{s}b", "{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s := gen.New()
			acquire := func(token string, ttl time.Duration, keys ...string) (gen.AcquireAllResult, error) {
				return s.AcquireAll(ctx, client, gen.AcquireAllParams{Keys: keys, Token: token, TTL: ttl, Locks: int64(min(2, len(keys)))})
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
	"Attach": {
		map[string][]string{"locks": {"{s}a", "{s}b"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.AttachParams{Locks: []string{"{s}a", "{s}b"}, Token: theirs, Former: []string{mine}}
			free, err1 := s.Attach(ctx, client, p)
			err2 := command(ctx, owner, "MSET", "{s}a", mine, "{s}b", mine)
			forever, err3 := s.Attach(ctx, client, p)
			err4 := command(ctx, owner, "SET", "{s}a", mine, "PX", "60000")
			again, err5 := s.Attach(ctx, client, p)
			return errors.Join(err1, err2, err3, err4, err5, expect(free.Position == 1 && forever == gen.AttachResult{Remaining: -time.Millisecond} &&
				again.Position == 0 && again.Remaining > 0, "the next owner attaches"))
		},
	},
	"Holder": {
		map[string][]string{"lock": {"{s}lock"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.HolderParams{Lock: "{s}lock"}
			free, err1 := s.Holder(ctx, client, p)
			cached, err2 := s.HolderCached(ctx, client, p, time.Hour)
			err3 := command(ctx, owner, "SET", "{s}lock", mine, "PX", "60000")
			held, err4 := s.Holder(ctx, client, p)
			if err := errors.Join(err1, err2, err3, err4,
				expect(!free.Valid && !cached.Value.Valid && held.V == mine, "the holder is told")); err != nil {
				return err
			}
			for start := time.Now(); ; time.Sleep(time.Millisecond) {
				cached, err := s.HolderCached(ctx, client, p, time.Hour)
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
		map[string][]string{"locks": {"{s}a", "{s}b"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s := gen.New()
			extend := func(token string, ttl time.Duration) (int64, error) {
				return s.Extend(ctx, client, gen.ExtendParams{Locks: []string{"{s}a", "{s}b"}, Token: token, TTL: ttl})
			}
			free, err1 := extend(mine, time.Minute)
			err2 := command(ctx, owner, "MSET", "{s}a", mine, "{s}b", mine)
			own, err3 := extend(mine, time.Minute)
			forever, err4 := extend(mine, 0)
			held, err5 := extend(theirs, time.Minute)
			shorter, err6 := s.Extend(ctx, client, gen.ExtendParams{Locks: []string{"{s}a", "{s}b"}, Token: theirs, TTL: time.Minute, Former: []string{mine}})
			return errors.Join(err1, err2, err3, err4, err5, err6,
				expect(free == 1 && own == 0 && forever == 0 && held == 1 && shorter == 0, "the owner extends"))
		},
	},
	"HandOver": {
		map[string][]string{"lock": {"{s}lock"}, "queue": {"{s}queue"}, "counter": {"{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s := gen.New()
			pass := func(token, next string, ttl time.Duration, counter ...string) (gen.HandOverResult, error) {
				return s.HandOver(ctx, client, gen.HandOverParams{Lock: "{s}lock", Queue: "{s}queue", Counter: counter, Token: token, Next: next, TTL: ttl, Fences: 3})
			}
			free, err1 := pass(mine, theirs, time.Minute)
			err2 := command(ctx, owner, "SET", "{s}lock", mine)
			passed, err3 := pass(mine, theirs, time.Minute, "{s}fence")
			again, err4 := pass(mine, theirs, time.Minute, "{s}fence")
			err5 := errors.Join(command(ctx, owner, "SET", "{s}fence", "7"), command(ctx, owner, "ZADD", "{s}queue", "1000000", "waiter"))
			forever, err6 := pass(theirs, mine, 0, "{s}fence")
			confirmed, err7 := pass(theirs, mine, 0)
			return errors.Join(err1, err2, err3, err4, err5, err6, err7,
				expect(!free.HandedOver && passed.HandedOver && again.HandedOver && forever.HandedOver && confirmed.HandedOver, "the holder hands it over"),
				expect(passed.Waits == 0 && forever.Waits > 1e15, "it tells for how long another has waited"),
				expect(passed.Fence > 1e15 && again.Fence >= passed.Fence+passed.Fences && forever.Fence > 1e15, "fences rise"))
		},
	},
	"Join": {
		queueKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			join := func(token, process string, ttl time.Duration, how gen.JoinHow) (gen.JoinResult, error) {
				return gen.New().Join(ctx, client, gen.JoinParams{Lock: "{s}lock", Queue: "{s}queue", Grants: "{s}grants:", Counter: []string{"{s}fence"},
					Token: token, TTL: ttl, Process: process, How: how})
			}
			err1 := command(ctx, owner, "SET", "{s}fence", "7")
			free, err2 := join(mine, "p", 0, gen.JoinHowJoin)
			kept, err3 := join(mine, "p", 0, gen.JoinHowHeartbeat)
			queued, err4 := join(theirs, "q", time.Minute, gen.JoinHowJoin)
			beat, err5 := join(theirs, "q", time.Minute, gen.JoinHowHeartbeat)
			err6 := command(ctx, owner, "DEL", "{s}lock")
			err7 := listening(ctx, owner, func() error { _, err := join("none", "r", time.Minute, gen.JoinHowTry); return err })
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, holds(ctx, owner, theirs),
				expect(free.Granted && free.Fence > 1e15 && kept.Granted && kept.Fence > free.Fence, "it is granted"),
				expect(!queued.Granted && queued.Score > 0 && beat.Score == queued.Score, "it is queued"))
		},
	},
	"Pass": {
		queueKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			pass := func(token string) (int64, error) {
				return gen.New().Pass(ctx, client, gen.PassParams{Lock: "{s}lock", Queue: "{s}queue", Grants: "{s}grants:", Counter: []string{"{s}fence"},
					Token: token, TTL: time.Minute, Process: "p"})
			}
			err1 := command(ctx, owner, "SET", "{s}lock", mine)
			freed, err2 := pass(mine)
			again, err3 := pass(mine)
			err4 := command(ctx, owner, "SET", "{s}lock", mine)
			err5 := command(ctx, owner, "SET", "{s}fence", "7")
			err6 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:next")
			err7 := listening(ctx, owner, func() error { _, err := pass(mine); return err })
			err8 := holds(ctx, owner, "next")
			// Without a fence nobody can have the lock: it is free then, and the queue is as it was.
			err9 := command(ctx, owner, "ZADD", "{s}queue", "2", "60000:q:last")
			err10 := command(ctx, owner, "SET", "{s}fence", "no number")
			err11 := listening(ctx, owner, func() error { _, err := pass("next"); return err })
			left, err12 := owner.Do(ctx, owner.B().Pttl().Key("{s}queue").Build()).AsInt64()
			err13 := holds(ctx, owner, "")
			// Others share the lock, and the first who waits wants a share.
			err14 := command(ctx, owner, "SET", "{s}lock", "rlock:shared 7 0")
			err15 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:rlock:share:0:1:next")
			waits, err16 := pass(mine)
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14, err15, err16,
				expect(freed == 1 && again == 0, "it is freed once"), expect(left > 0, "the queue is there, and ends"), expect(waits == 2, "a share is waited for"))
		},
	},
	"PassMany": {
		map[string][]string{"keys": {"{s}lock", "{s}queue", "{s}fence"}, "grants": {"{s}grants:"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			pass := func(token string) ([]int64, error) {
				return gen.New().PassMany(ctx, client, gen.PassManyParams{Grants: "{s}grants:", Keys: []string{"{s}lock", "{s}queue", "{s}fence"}, Tokens: []string{token}})
			}
			err1 := command(ctx, owner, "SET", "{s}lock", mine)
			freed, err2 := pass(mine)
			again, err3 := pass(mine)
			err4 := command(ctx, owner, "SET", "{s}lock", mine)
			err5 := command(ctx, owner, "SET", "{s}fence", "7")
			err6 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:next")
			err7 := listening(ctx, owner, func() error { _, err := pass(mine); return err })
			err8 := holds(ctx, owner, "next")
			err9 := command(ctx, owner, "ZADD", "{s}queue", "2", "60000:q:last")
			err10 := command(ctx, owner, "SET", "{s}fence", "no number")
			err11 := listening(ctx, owner, func() error { _, err := pass("next"); return err })
			left, err12 := owner.Do(ctx, owner.B().Pttl().Key("{s}queue").Build()).AsInt64()
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, holds(ctx, owner, ""),
				expect(slices.Equal(freed, []int64{1}) && slices.Equal(again, []int64{0}), "it is freed once"), expect(left > 0, "the queue is there, and ends"))
		},
	},
	"PassAll": {
		map[string][]string{"keys": {"{s}lock", "{s}other", "{s}queue", "{s}none", "{s}fence", "{s}fence"}, "grants": {"{s}grants:"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			pass := func(token string) (int64, error) {
				return gen.New().PassAll(ctx, client, gen.PassAllParams{
					Grants: "{s}grants:", Keys: []string{"{s}lock", "{s}other", "{s}queue", "{s}none", "{s}fence", "{s}fence"}, Token: token, Locks: 2})
			}
			err1 := command(ctx, owner, "MSET", "{s}lock", mine, "{s}other", mine)
			freed, err2 := pass(mine)
			again, err3 := pass(mine)
			err4 := command(ctx, owner, "MSET", "{s}lock", mine, "{s}other", theirs)
			err5 := command(ctx, owner, "SET", "{s}fence", "7")
			err6 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:next")
			err7 := listening(ctx, owner, func() error { _, err := pass(mine); return err })
			err8 := holds(ctx, owner, "next")
			err9 := command(ctx, owner, "ZADD", "{s}queue", "2", "60000:q:last")
			err10 := command(ctx, owner, "SET", "{s}fence", "no number")
			err11 := listening(ctx, owner, func() error { _, err := pass("next"); return err })
			left, err12 := owner.Do(ctx, owner.B().Pttl().Key("{s}queue").Build()).AsInt64()
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, holds(ctx, owner, ""),
				expect(freed == 2 && again == 0, "they are freed once"), expect(left > 0, "the queue is there, and ends"))
		},
	},
	"Try": {
		map[string][]string{"lock": {"{s}lock"}, "queue": {"{s}queue"}, "counter": {"{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			try := func(token string) (gen.TryResult, error) {
				return gen.New().Try(ctx, client, gen.TryParams{Lock: "{s}lock", Queue: "{s}queue", Counter: []string{"{s}fence"}, Token: token, TTL: time.Minute})
			}
			err1 := command(ctx, owner, "SET", "{s}fence", "7")
			taken, err2 := try(mine)
			again, err3 := try(mine)
			held, err4 := try(theirs)
			return errors.Join(err1, err2, err3, err4, holds(ctx, owner, mine),
				expect(taken.Outcome == 1 && taken.Value > 1e15, "it is taken"),
				expect(again == gen.TryResult{}, "it is the token's already"),
				expect(held.Outcome == 2 && held.Value > 50_000, "it is another's"))
		},
	},
	"TryMany": {
		map[string][]string{"keys": {"{s}a", "{s}b", "{s}aq", "{s}bq", "{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			try := func() ([]gen.TryManyItem, error) {
				return gen.New().TryMany(ctx, client, gen.TryManyParams{
					Keys: []string{"{s}a", "{s}b", "{s}aq", "{s}bq", "{s}fence"}, Words: []string{mine, "60000", theirs, ""}})
			}
			err1 := command(ctx, owner, "SET", "{s}fence", "7")
			both, err2 := try()
			err3 := command(ctx, owner, "SET", "{s}b", "another's")
			held, err4 := try()
			return errors.Join(err1, err2, err3, err4,
				expect(len(both) == 2 && both[0].Outcome == 1 && both[0].Value > 1e15 && both[1] == gen.TryManyItem{Outcome: 1}, "both are taken"),
				expect(len(held) == 2 && held[0].Outcome == 0 && held[1] == gen.TryManyItem{Outcome: 2, Value: -1}, "one is another's"))
		},
	},
	"Requeue": {
		queueKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			pass := func(token, again string, ttl time.Duration) (gen.RequeueResult, error) {
				return gen.New().Requeue(ctx, client, gen.RequeueParams{Lock: "{s}lock", Queue: "{s}queue", Grants: "{s}grants:", Counter: []string{"{s}fence"},
					Token: token, TTL: ttl, Process: "p", Again: again, AgainTTL: ttl})
			}
			err1 := command(ctx, owner, "SET", "{s}lock", mine)
			freed, err2 := pass(mine, theirs, 0)
			endless, err3 := pass(mine, theirs, 0)
			err4 := command(ctx, owner, "SET", "{s}fence", "7")
			leased, err5 := pass(mine, theirs, time.Minute)
			err6 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:next")
			var passed gen.RequeueResult
			err7 := listening(ctx, owner, func() (err error) { passed, err = pass(theirs, mine, time.Minute); return err })
			waits, err8 := pass(theirs, mine, time.Minute)
			err9 := holds(ctx, owner, "next")
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9,
				expect(freed.Freed && freed.Granted && endless.Granted && leased.Granted && leased.Fence > 1e15, "the second token has it"),
				expect(passed.Freed && passed.Score > 1 && waits.Score == passed.Score, "the second token waits"))
		},
	},
	"Inspect": {
		map[string][]string{"locks": {"{s}a", "{s}b"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			err1 := command(ctx, owner, "SET", "{s}a", mine)
			r, err2 := gen.New().Inspect(ctx, client, gen.InspectParams{Locks: []string{"{s}a", "{s}b"}})
			again, err3 := gen.New().Inspect(ctx, client, gen.InspectParams{Locks: []string{"{s}a", "{s}b"}})
			return errors.Join(err1, err2, err3, expect(len(r.Holders) == 2 && r.Holders[0].V == mine && !r.Holders[1].Valid &&
				slices.Equal(r.Remaining, again.Remaining), "holders are told"))
		},
	},
	"Waiters": {
		map[string][]string{"queue": {"{s}queue"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			err1 := command(ctx, owner, "ZADD", "{s}queue", "2", "b", "1", "a", "3", "c")
			members, err2 := gen.New().Waiters(ctx, client, gen.WaitersParams{Queue: "{s}queue", Last: 1})
			return errors.Join(err1, err2, expect(slices.Equal(members, []string{"a", "1", "b", "2"}), "waiters are told in order"))
		},
	},
	"RaiseFence": {
		map[string][]string{"keys": {"{s}a", "{s}fence"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.RaiseFenceParams{Keys: []string{"{s}a", "{s}fence"}, Token: mine, Fence: 7, Locks: 1}
			free, err1 := s.RaiseFence(ctx, client, p)
			err2 := command(ctx, owner, "SET", "{s}a", mine)
			low, err3 := s.RaiseFence(ctx, client, p)
			high, err4 := s.RaiseFence(ctx, client, p)
			return errors.Join(err1, err2, err3, err4, expect(free == 1 && low == 0 && high == 0, "the holder raises the counter"))
		},
	},
	"Release": {
		map[string][]string{"locks": {"{s}a", "{s}b"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.ReleaseParams{Locks: []string{"{s}a", "{s}b"}, Token: mine}
			none, err1 := s.Release(ctx, client, p)
			err2 := command(ctx, owner, "MSET", "{s}a", mine, "{s}b", theirs)
			one, err3 := s.Release(ctx, client, p)
			err4 := command(ctx, owner, "MSET", "{s}a", mine, "{s}b", mine)
			two, err5 := s.Release(ctx, client, p)
			return errors.Join(err1, err2, err3, err4, err5, expect(none == 0 && one == 1 && two == 2, "the owner releases"))
		},
	},
	"ExtendMany": {
		map[string][]string{"locks": {"{s}a", "{s}b"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, p := gen.New(), gen.ExtendManyParams{Locks: []string{"{s}a", "{s}b"}, Tokens: []string{mine, theirs}, TTL: time.Minute}
			none, err1 := s.ExtendMany(ctx, client, p)
			err2 := command(ctx, owner, "MSET", "{s}a", mine, "{s}b", mine)
			one, err3 := s.ExtendMany(ctx, client, p)
			return errors.Join(err1, err2, err3, expect(slices.Equal(none, []int64{1, 2}) && slices.Equal(one, []int64{2}), "holders extend"))
		},
	},
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
	stdout, stderr, err := run(t, root, nil, "run", "./generator", "-audit", "-json")
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
					err := travel(t, server, owner, option, trip, slices.Delete(slices.Clone(script.ACL), i, i+1), 500*time.Millisecond)
					switch word {
					case "+client|caching":
						require.ErrorIs(t, err, errStaleAnswer)
					case "+multi": // the client sees a reply that is none
						require.Error(t, err, "%s is not needed", word)
					default:
						require.Error(t, err, "%s is not needed", word)
						if slices.Contains(survives[script.Name], word) {
							require.ErrorContains(t, err, "not so", word)
							continue
						}
						require.True(t, errors.Is(err, rueidis.ErrDoCacheAborted) || env.NoPermission.MatchString(err.Error()), "%s: %v", word, err)
					}
				}
			})
		}
	})
}

var entryRule = regexp.MustCompile(`^([~&])<(\w+)>(\*?)$`)

// travel goes on a journey as a user with these rules, on a server that knows no
// script and no key.
func travel(t *testing.T, server *env.Server, owner rueidis.Client, option rueidis.ClientOption, trip journey, rules []string, patience time.Duration) error {
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
	said := regexp.MustCompile("which needs `([^`]+)` to connect. Load, and\ncalls with rueidis.WithLoadSHA1, also need `([^`]+)`").FindSubmatch(text)
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

		// Who may not compute SHA-1 loads each script before its first call.
		params := gen.HolderParams{Lock: "lock"}
		server.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">secret", connect, "~lock", "+evalsha", "+eval", "+get")
		_, err = gen.New().Holder(t.Context(), client, params)
		require.NoError(t, err)
		_, err = gen.New(gen.WithLuaOptions(rueidis.WithLoadSHA1(true))).Holder(t.Context(), client, params)
		require.Regexp(t, env.NoPermission, fmt.Sprint(err))
		server.Do(t, "ACL", "SETUSER", "app", load)
		_, err = gen.New(gen.WithLuaOptions(rueidis.WithLoadSHA1(true))).Holder(t.Context(), client, params)
		require.NoError(t, err)

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
	stdout, stderr, err := run(t, root, nil, "run", "./generator", "-audit", "-json", "-scripts", dir)
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
				err = client.Do(t.Context(), client.B().Eval().Script(sources[script.Name]).Numkeys(1).Key("ids").Build()).Error()
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
