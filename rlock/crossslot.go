package rlock

import (
	"context"
	"slices"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// group is what one slot has of a set.
type group struct {
	keys   []string
	freed  int64 // of the keys, by Release
	done   bool  // Release has nothing more to do
	unsure bool  // a try of Release that got no answer may have freed the keys
}

// split puts the keys of a set into groups, in the order of slots, unless they can be
// taken at once.
func (l *Lock) split() {
	keys := l.keys()
	if !l.locker.cluster || len(keys) == 1 {
		return
	}
	parts := slot.Groups(keys)
	if len(parts) == 1 {
		return
	}
	groups := make([]group, len(parts))
	for i, part := range parts {
		groups[i].keys = part
	}
	l.more().groups = groups
}

// parts returns the keys of each call that is about all of them.
func (l *Lock) parts() [][]string {
	groups := l.groups()
	if groups == nil {
		return [][]string{l.keys()}
	}
	parts := make([][]string, len(groups))
	for i, g := range groups {
		parts[i] = g.keys
	}
	return parts
}

// takeGroups makes one attempt on all groups. It holds all of them afterwards, or
// frees those that it has taken.
//
// Every attempt has a token of its own: a release that is late on its way must not
// free what a later attempt holds.
func (l *Lock) takeGroups(ctx context.Context) (taken, error) {
	l.lease.SetToken(l.mintToken())
	whole := taken{sent: clock.Now(), acquired: true}
	fences := make([]int64, len(l.groups()))
	for i, g := range l.groups() {
		var counters []string
		if l.fenced {
			counters = slot.FenceCounter(g.keys[0])
		}
		t, err := l.take(ctx, g.keys, counters, false)
		if err != nil || !t.acquired {
			l.rollBack(ctx, l.groups()[:i])
			return t, err
		}
		fences[i] = t.fence
		whole.fence = max(whole.fence, t.fence)
	}
	key, err := l.raiseFence(ctx, fences, whole.fence)
	if err != nil || key != "" {
		l.rollBack(ctx, l.groups())
		return taken{key: key}, err
	}
	return whole, nil
}

// raiseFence raises the counters of all groups to the fence of the set, which is the
// largest of theirs. It returns a key that was lost meanwhile.
func (l *Lock) raiseFence(ctx context.Context, fences []int64, fence int64) (key string, err error) {
	var params []gen.RaiseFenceParams
	for i, g := range l.groups() {
		if fences[i] < fence {
			keys := slices.Concat(g.keys, slot.FenceCounter(g.keys[0]))
			params = append(params, gen.RaiseFenceParams{Keys: keys, Token: l.lease.Token(), Fence: fence, Locks: int64(len(g.keys))})
		}
	}
	err = remote.RetryTimes(ctx, remote.Attempts, func(ctx context.Context) error {
		replies := l.locker.scripts.RaiseFenceBatch(ctx, l.locker.client, params)
		for i, reply := range replies {
			if reply.Value != 0 {
				key = slot.KeyAt(params[i].Keys[:params[i].Locks], reply.Value)
			}
		}
		return remote.Combine(replies)
	})
	return key, remote.Redact(err, l.lease.Token())
}

// rollBack frees groups that a failed attempt has taken. What the server does not
// confirm, and what lost commands of the attempt may still take, is freed in the
// background.
func (l *Lock) rollBack(ctx context.Context, groups []group) {
	for _, reply := range l.locker.scripts.ReleaseBatch(ctx, l.locker.client, l.groupParams(groups)) {
		if reply.Err != nil {
			l.late++
		}
	}
	if l.late > 0 {
		l.abandon(l.lease.TTL(), int(l.late)+1)
		l.late = 0
	}
}

func (l *Lock) groupParams(groups []group) []gen.ReleaseParams {
	params := make([]gen.ReleaseParams, len(groups))
	for i, g := range groups {
		params[i] = gen.ReleaseParams{Locks: g.keys, Token: l.lease.Token()}
	}
	return params
}

// freeGroups is free for all groups. A group that was freed by an earlier call, or
// certainly by an earlier try, counts as freed.
func (l *Lock) freeGroups(ctx context.Context) (freed int64, err error) {
	var early int64
	err = remote.RetryDetached(ctx, remote.Patience, func(ctx context.Context) error {
		n, err := l.freeFormer(ctx)
		early += n
		if err != nil {
			return err
		}
		replies := l.locker.scripts.ReleaseBatch(ctx, l.locker.client, l.groupParams(l.groups()))
		for i, reply := range replies {
			g := &l.groups()[i]
			switch {
			case remote.OutcomeOf(reply.Err) == remote.Indeterminate:
				g.unsure = true
			case reply.Err == nil && !g.done:
				g.done, g.freed = true, reply.Value
				if cause := l.cause(); g.freed == 0 && g.unsure && (cause == released || cause == closed) {
					g.freed = int64(len(g.keys))
				}
			}
		}
		return remote.Combine(replies)
	})
	freed = early
	for _, g := range l.groups() {
		freed += g.freed
	}
	return freed, err
}

// inspectGroups is inspectAll for all groups.
func (l *Lock) inspectGroups(ctx context.Context) ([]State, error) {
	var all []State
	for _, g := range l.groups() {
		states, err := l.locker.inspectAll(ctx, g.keys)
		if err != nil {
			return nil, err
		}
		all = append(all, states...)
	}
	return all, nil
}
