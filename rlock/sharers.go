package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// SharedState says who shares a lock.
type SharedState struct {
	Limit   int      // how many permits there are; 0: none, readers share the lock
	Permits int      // how many of them are in use; of readers, how many holders: several of one process may be one
	Holders []Sharer // in the order in which their leases end
}

// Sharer is one of those who share a lock.
type Sharer struct {
	Owner   string // what the holder says about itself, see WithOwner; "" when it says nothing
	Permits int    // that it has

	token *string // a pointer, because package fmt would show a string
	until clock.Instant
}

// Token returns the token of the holder, for ForceRelease.
func (s Sharer) Token() string {
	if s.token == nil {
		return ""
	}
	return *s.token
}

// Remaining returns what is left of the holder's lease by now: NoExpiry when it never expires.
func (s Sharer) Remaining() time.Duration { return max(s.until.Until(), 0) }

// inspectShared asks the server who shares a key.
func inspectShared(ctx context.Context, l *Locker, op, key string) (State, error) {
	found, err := l.remote.Shares().Inspect(ctx, key)
	if err != nil {
		return State{}, unanswered(ctx, op, key, err)
	}
	s := stateOf(found.Holder)
	if found.Phase == 0 {
		return s, nil
	}
	s.Shared = &SharedState{Limit: found.Limit}
	for i := range found.Sharers {
		h := &found.Sharers[i]
		s.Shared.Permits += h.Permits
		s.Shared.Holders = append(s.Shared.Holders, Sharer{remote.OwnerIn(h.Token), h.Permits, &h.Token, h.End})
	}
	return s, nil
}

// asOwner returns the token that the value of a key stands for. A shared key has no token. To a lock that
// is a share of it, asOwner returns the lock's own token as long as the phase in which the share was
// granted lasts. Whether the lock still has its share then, only the server knows.
func asOwner(t *lease, value string) string {
	if phase, _, shared := remote.SharedValue(value); shared && t.claim.IsShare() && phase == t.fence {
		return t.terms.Token()
	}
	return value
}
