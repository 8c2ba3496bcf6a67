package generator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

func init() {
	maps.Copy(journeys, sharedJourneys)
	maps.Copy(survives, map[string][]string{
		"AcquireShared": {"&<grants>*", "+pubsub|shardnumsub", "+spublish"},
		"ReleaseShared": {"&<grants>*", "+pubsub|shardnumsub", "+spublish", "+incr", "+set", "+pexpire"},
		"ChangeLimit":   {"&<grants>*", "+pubsub|shardnumsub", "+spublish"},
	})
}

// told calls f while the process q listens for grants, and fails where none is told to it.
func told(ctx context.Context, owner rueidis.Client, patience time.Duration, f func() error) error {
	dedicated, release := owner.Dedicate()
	defer release()
	heard := make(chan struct{}, 1)
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}})
	if err := dedicated.Do(ctx, dedicated.B().Ssubscribe().Channel("{s}grants:q").Build()).Error(); err != nil {
		return err
	}
	err := listening(ctx, owner, f)
	if err != nil {
		return err
	}
	select {
	case <-heard:
		return nil
	case <-time.After(patience):
		return expect(false, "a grant is told")
	}
}

var sharedKeys = map[string][]string{
	"lock": {"{s}lock"}, "holders": {"{s}holders"}, "queue": {"{s}queue"}, "grants": {"{s}grants:"}, "counter": {"{s}fence"},
}

// share is the token of a permit of a key that has limit of them.
func share(limit int, name string) string { return fmt.Sprintf("rlock:share:%d:1:%s", limit, name) }

// sharers calls the scripts for shared locks as one user.
type sharers struct {
	ctx    context.Context
	client rueidis.Client
}

func (s sharers) acquire(token string, ttl time.Duration, how gen.AcquireSharedHow) (gen.AcquireSharedResult, error) {
	return gen.New().AcquireShared(s.ctx, s.client, gen.AcquireSharedParams{
		Lock: "{s}lock", Holders: "{s}holders", Queue: "{s}queue", Counter: "{s}fence", Grants: "{s}grants:", Token: token, TTL: ttl, Process: "q", How: how,
	})
}

func (s sharers) takes(token string, ttl time.Duration) error {
	r, err := s.acquire(token, ttl, gen.AcquireSharedHowTry)
	return errors.Join(err, expect(r.Granted, token+" gets a share"))
}

func (s sharers) joins(token string) error {
	r, err := s.acquire(token, time.Minute, gen.AcquireSharedHowJoin)
	return errors.Join(err, expect(r.Score > 0, token+" waits"))
}

func (s sharers) release(token string) error {
	freed, err := gen.New().ReleaseShared(s.ctx, s.client, gen.ReleaseSharedParams{
		Lock: "{s}lock", Holders: "{s}holders", Queue: "{s}queue", Counter: "{s}fence", Grants: "{s}grants:", Token: token, TTL: time.Minute, Process: "q",
	})
	return errors.Join(err, expect(freed, token+" had a share"))
}

func (s sharers) extend(token string, ttl time.Duration, former ...string) error {
	extended, err := gen.New().ExtendShared(s.ctx, s.client, gen.ExtendSharedParams{Lock: "{s}lock", Holders: "{s}holders", Token: token, TTL: ttl, Former: former})
	return errors.Join(err, expect(extended, token+" is extended"))
}

// dies has the lease of a share be over.
func (s sharers) dies(token string) error {
	members, err := s.client.Do(s.ctx, s.client.B().Zrange().Key("{s}holders").Min("0").Max("-1").Build()).AsStrSlice()
	for _, member := range members {
		if strings.HasSuffix(member, " "+token) {
			err = errors.Join(err, command(s.ctx, s.client, "ZADD", "{s}holders", "1", member))
		}
	}
	return err
}

// has fails where a key is not shared by so many.
func (s sharers) has(holders int) error {
	found, err := gen.New().InspectShared(s.ctx, s.client, gen.InspectSharedParams{Lock: "{s}lock", Holders: "{s}holders"})
	return errors.Join(err, expect(len(found.Members) == holders, fmt.Sprintf("%d share it, not %d", len(found.Members), holders)))
}

var sharedJourneys = map[string]journey{
	"AcquireShared": {
		sharedKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, all := sharers{ctx, client}, sharers{ctx, owner}
			err1 := command(ctx, owner, "SET", "{s}fence", "7")
			err2 := s.takes(share(2, "a"), 2*time.Minute)
			err3 := s.takes(share(2, "b"), time.Minute)
			err4 := told(ctx, owner, patience, func() error {
				err1 := s.joins(share(2, "c"))
				beat, err2 := s.acquire(share(2, "c"), time.Minute, gen.AcquireSharedHowHeartbeat)
				other, err3 := s.acquire(share(3, "d"), time.Minute, gen.AcquireSharedHowTry)
				_, err4 := owner.Do(ctx, owner.B().Zremrangebyrank().Key("{s}holders").Start(0).Stop(0).Build()).AsInt64() // b
				_, err5 := s.acquire(share(2, "e"), time.Minute, gen.AcquireSharedHowTry)                                  // lets c in
				return errors.Join(err1, err2, err3, err4, err5, expect(!beat.Granted && beat.Score > 0 && other.Limit == 2, "they are refused"))
			})
			err5 := all.has(2)
			err6 := errors.Join(all.release(share(2, "a")), all.release(share(2, "c")))
			err7 := s.takes(share(2, "f"), 0) // without an end
			err8 := errors.Join(s.takes(share(2, "f"), 0), all.release(share(2, "f")))
			err9 := command(ctx, owner, "SET", "{s}lock", "rlock:shared 1 2") // a phase whose holders are dead
			err10 := command(ctx, owner, "ZADD", "{s}holders", "1", "1 1 "+share(2, "dead"))
			err11 := s.takes(share(2, "h"), time.Minute)
			err12 := command(ctx, owner, "DEL", "{s}lock")
			err13 := s.takes(share(2, "i"), time.Minute)
			err14 := command(ctx, owner, "DEL", "{s}lock", "{s}holders")
			err15 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:next")
			err16 := told(ctx, owner, patience, func() error {
				_, err := s.acquire(share(2, "j"), time.Minute, gen.AcquireSharedHowTry)
				return err
			})
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14, err15, err16, holds(ctx, owner, "next"))
		},
	},
	"ReleaseShared": {
		sharedKeys,
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, all := sharers{ctx, client}, sharers{ctx, owner}
			err1 := errors.Join(all.takes(share(3, "a"), time.Minute), all.takes(share(3, "b"), 2*time.Minute), all.takes(share(3, "c"), 0))
			err2 := told(ctx, owner, patience, func() error {
				return errors.Join(all.joins(share(3, "d")), s.release(share(3, "b"))) // lets the next in
			})
			err4 := all.has(3)
			err5 := s.release(share(3, "c")) // the others have an end
			err6 := errors.Join(s.release(share(3, "d")), s.release(share(3, "a")))
			err7 := holds(ctx, owner, "")
			err8 := errors.Join(all.takes(share(3, "a"), 0), all.takes(share(3, "b"), time.Minute), s.release(share(3, "b")), s.release(share(3, "a")))
			err9 := command(ctx, owner, "SET", "{s}lock", share(3, "a"))
			err10 := s.release(share(3, "a")) // of the whole lock
			err11 := all.takes(share(3, "a"), time.Minute)
			err12 := command(ctx, owner, "ZADD", "{s}queue", "1", "60000:q:next")
			err13 := command(ctx, owner, "SET", "{s}fence", "7")
			err14 := told(ctx, owner, patience, func() error { return s.release(share(3, "a")) })
			err15 := errors.Join(holds(ctx, owner, "next"), command(ctx, owner, "DEL", "{s}lock"), all.takes(share(3, "a"), time.Minute))
			// Without a fence nobody can have the lock: it is free then, and the queue is as it was.
			err16 := command(ctx, owner, "ZADD", "{s}queue", "2", "60000:q:last")
			err17 := command(ctx, owner, "SET", "{s}fence", "no number")
			err18 := listening(ctx, owner, func() error { return s.release(share(3, "a")) })
			left, err19 := owner.Do(ctx, owner.B().Pttl().Key("{s}queue").Build()).AsInt64()
			return errors.Join(err1, err2, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14, err15, err16, err17, err18, err19,
				holds(ctx, owner, ""), expect(left > 0, "the queue is there, and ends"))
		},
	},
	"ExtendShared": {
		map[string][]string{"lock": {"{s}lock"}, "holders": {"{s}holders"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			s, all := sharers{ctx, client}, sharers{ctx, owner}
			err1 := errors.Join(all.takes(share(3, "a"), time.Minute), all.takes(share(3, "dead"), time.Millisecond))
			time.Sleep(10 * time.Millisecond)
			err2 := s.extend(share(3, "a"), 2*time.Minute)
			err3 := s.extend(share(3, "b"), time.Minute, share(3, "a"))
			err4 := s.extend(share(3, "b"), 0)
			lease, err5 := owner.Do(ctx, owner.B().Pttl().Key("{s}lock").Build()).AsInt64()
			return errors.Join(err1, err2, err3, err4, err5, all.has(1), expect(lease == -1, "it never ends"))
		},
	},
	"InspectShared": {
		map[string][]string{"lock": {"{s}lock"}, "holders": {"{s}holders"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			all := sharers{ctx, owner}
			err := errors.Join(all.takes(share(3, "a"), time.Minute), all.takes(share(3, "b"), 0))
			return errors.Join(err, sharers{ctx, client}.has(2))
		},
	},
	"ChangeLimit": {
		map[string][]string{"lock": {"{s}lock"}, "holders": {"{s}holders"}, "queue": {"{s}queue"}, "grants": {"{s}grants:"}},
		func(ctx context.Context, client, owner rueidis.Client, patience time.Duration) error {
			all := sharers{ctx, owner}
			change := func(limit, want int64) error {
				former, err := gen.New().ChangeLimit(ctx, client, gen.ChangeLimitParams{Lock: "{s}lock", Holders: "{s}holders", Queue: "{s}queue", Grants: "{s}grants:", Limit: limit})
				return errors.Join(err, expect(former == want, "the former limit"))
			}
			err1 := errors.Join(all.takes(share(2, "a"), time.Minute), all.takes(share(2, "dead"), 2*time.Minute))
			err2 := told(ctx, owner, patience, func() error {
				return errors.Join(all.joins(share(2, "b")), all.dies(share(2, "dead")), change(2, 2))
			})
			err4 := errors.Join(all.has(2), change(3, 2), all.takes(share(3, "c"), 0), change(4, 3))
			err5 := command(ctx, owner, "PEXPIRE", "{s}lock", "60000")
			err6 := change(5, 4) // it has no end again
			return errors.Join(err1, err2, err4, err5, err6)
		},
	},
}
