package crowds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// leftLock is one use of a key, or of a set of keys, by Lockers.
type leftLock struct {
	keys    []string
	share   leftShare
	ending  int
	endless bool
	held    []*rlock.Lock
	waits   chan error
}

// take takes what the use is of.
func (u *leftLock) take(ctx context.Context, l *rlock.Locker, ttl time.Duration) (*rlock.Lock, error) {
	switch lease := rlock.WithTTL(ttl); {
	case len(u.keys) > 1:
		return l.AcquireAll(ctx, u.keys, lease)
	case u.share.permits == 0:
		return l.Acquire(ctx, u.keys[0], lease)
	case u.share.limit == 0:
		return l.AcquireShared(ctx, u.keys[0], lease)
	default:
		return l.AcquirePermits(ctx, u.keys[0], 1, u.share.limit, lease)
	}
}

// TestNothingIsLeft, with Lockers: one whose locks end in each way, one that waits meanwhile, and one that
// comes after. Both get the lock, and nothing is left but fence counters.
func TestNothingIsLeftOfLocks(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		rounds, uses := 10, 300
		if testing.Short() {
			rounds, uses = 2, 100
		}
		server := e.Start(t)
		client, tags := server.Client(t), slotTags()
		holder, waiter, next := env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server)
		ctx, cancel := context.WithTimeout(t.Context(), 2*leftDeadline)
		defer cancel()
		for round := range rounds {
			all := make([]*leftLock, uses)
			for i := range all {
				all[i] = newLeftLock(i)
				if round%2 == 1 {
					all[i].ending = endFlush
				}
			}
			require.NoError(t, env.Together(uses, func(i int) error {
				return all[i].begin(ctx, holder, waiter, lease)
			}))
			if all[0].ending == endFlush {
				require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
			}
			require.NoError(t, env.Together(uses, func(i int) error {
				return all[i].finish(ctx, client, holder, tags)
			}))
			require.NoError(t, env.Together(uses, func(i int) error { return all[i].follow(ctx, next) }))
		}
		var names []string
		for began := time.Now(); time.Since(began) < leftDeadline; time.Sleep(10 * time.Millisecond) {
			all, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
			require.NoError(t, err)
			names = nil
			for _, name := range all {
				if !strings.HasPrefix(name, leftCounters) {
					names = append(names, name)
				}
			}
			if require.LessOrEqual(t, len(all)-len(names), leftMostOfThem); len(names) == 0 {
				break
			}
		}
		require.Empty(t, names)
	})
}

func newLeftLock(i int) *leftLock {
	u := &leftLock{keys: []string{fmt.Sprint("k", i)}, ending: rand.IntN(leftEndings)}
	u.endless = rand.IntN(4) == 0
	switch rand.IntN(4) {
	case 0:
	case 1:
		u.keys = append(u.keys, fmt.Sprint("k", i, "b"))
	case 2:
		u.share = leftShare{0, 1}
	default:
		u.share = leftShare{1 + rand.IntN(3), 1}
	}
	// Nothing else ends what has no end. The life that a stranger gives the key gets longer when another gets
	// a share.
	shortened := u.ending == endSoon || u.ending == endLate
	if u.endless && (u.ending == endDeath || u.ending == endDelHolders || shortened && u.share.permits > 0) {
		u.ending = endForceValue
	}
	return u
}

// begin has the holders take the lock, and mostly another wait for it.
func (u *leftLock) begin(ctx context.Context, holder, waiter *rlock.Locker, lease time.Duration) error {
	ttl := lease
	if u.endless {
		ttl = rlock.NoExpiry
	}
	for range max(u.share.limit, 1) {
		lock, err := u.take(ctx, holder, ttl)
		if errors.Is(err, rlock.ErrExpired) {
			continue // the machine is that busy
		} else if err != nil {
			return err
		}
		u.held = append(u.held, lock)
	}
	if rand.IntN(3) > 0 {
		u.waits = make(chan error, 1)
		go func() { u.waits <- takeAndRelease(ctx, u, waiter, rand.IntN(2) == 0) }()
	}
	return nil
}

// takeAndRelease has a Locker get the lock, and give it up.
func takeAndRelease(ctx context.Context, u *leftLock, l *rlock.Locker, endless bool) error {
	ttl := time.Minute
	if endless {
		ttl = rlock.NoExpiry
	}
	lock, err := u.take(ctx, l, ttl)
	if err == nil {
		err = lock.Release(ctx)
	}
	if err != nil && !errors.Is(err, rlock.ErrNotHeld) { // the keys may be deleted meanwhile
		return fmt.Errorf("%+v: %w", u, err)
	}
	return nil
}

// finish ends the locks of the holders as they are to end. Nobody gives up more than that.
func (u *leftLock) finish(
	ctx context.Context, client rueidis.Client, holder *rlock.Locker, tags []string,
) error {
	do := func(words ...string) error { return client.Do(ctx, client.B().Arbitrary(words...).Build()).Error() }
	var failed error
	for _, key := range u.keys {
		var err error
		switch u.ending {
		case endDel:
			err = do("DEL", key)
		case endDelHolders:
			err = do("DEL", "rlock:holders:{"+tags[redislua.Slot(key)]+"}:"+key)
		case endSoon:
			err = do("PEXPIRE", key, "50")
		case endLate:
			err = do("PEXPIRE", key, "2000")
		case endForce, endForceValue:
			err = u.force(ctx, holder, key)
		}
		failed = errors.Join(failed, err)
	}
	for _, lock := range u.held {
		if u.ending == endRelease || u.ending == endForce {
			if err := lock.Release(ctx); err != nil && !errors.Is(err, rlock.ErrNotHeld) {
				failed = errors.Join(failed, err)
			}
		} else if _, err := lock.Detach(); err != nil && !errors.Is(err, rlock.ErrNotHeld) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// force frees a key as whoever repairs does: by the tokens that Inspect shows.
func (u *leftLock) force(ctx context.Context, l *rlock.Locker, key string) error {
	state, err := env.Admin(l).Inspect(ctx, key)
	if err != nil || state.Mode == rlockadmin.Free {
		return err
	}
	for _, holder := range state.Holders {
		if err := env.Admin(l).ForceRelease(ctx, key, holder.Token()); err != nil &&
			!errors.Is(err, rlock.ErrLost) {
			return err
		}
	}
	return nil
}

// follow has another get the lock, and the one who waited.
func (u *leftLock) follow(ctx context.Context, next *rlock.Locker) error {
	err := takeAndRelease(ctx, u, next, rand.IntN(2) == 0)
	if u.waits != nil {
		err = errors.Join(err, <-u.waits)
	}
	return err
}
