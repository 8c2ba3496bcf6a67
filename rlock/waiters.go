package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Waiter is a process that waits for a lock.
type Waiter struct {
	Owner   string    // what it says about itself, see WithOwner; "" when it says nothing
	Since   time.Time // when it began to wait, by the clock of the server
	Permits int       // that it wants; 0: the whole lock
	Limit   int       // of the permits that it wants; 0: none, it is a reader or wants the whole lock
}

// Waiters asks the server who waits for the lock of key, in the order in which they get it, the first thousand
// at most. A process with several callers who wait is one Waiter, and so is a set that waits for this key. A
// process that has died stays in the list until the lock would be passed on to it. Who stands in no queue is not
// in the list: callers of other libraries, and those whose user lacks the right to it.
func (l *Locker) Waiters(ctx context.Context, key string) ([]Waiter, error) {
	full, err := l.begun(ctx, "list waiters", key)
	if err != nil {
		return nil, err
	}
	found, err := remote.Waiters(ctx, l.remote, full)
	if err != nil {
		return nil, &LockError{"list waiters", full, err}
	}
	all := make([]Waiter, len(found))
	for i, w := range found {
		all[i] = Waiter{Owner: remote.OwnerIn(w.Token), Since: w.Since}
		if share, _, is := remote.ShareOf(w.Token); is {
			all[i].Permits, all[i].Limit = share.Permits, share.Limit
		}
	}
	return all, nil
}
