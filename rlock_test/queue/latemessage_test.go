package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// says sends the message of the grant of a place again, as if it had been under way until now.
func says(t *testing.T, client rueidis.Client, key, member string) {
	t.Helper()
	part := strings.SplitN(member, ":", 3)
	message := fmt.Sprintf("%s 1 0 %d %s %s", part[0], len(key), key, part[2])
	heard := false
	for _, channel := range channels(t, client) {
		if strings.HasSuffix(channel, part[1]) {
			heard = true
			require.NoError(t, env.Do(t, client, "SPUBLISH", channel, message).Error())
		}
	}
	require.True(t, heard, "the process listens")
}

// The message of a grant may come late. Whatever has become of what was granted meanwhile, the message frees
// nothing of those who have the token now.
func TestLateGrantFreesNothing(t *testing.T) {
	t.Parallel()
	type served struct {
		t      *testing.T
		client rueidis.Client
		l      *rlock.Locker
		got    <-chan *rlock.Lock
		token  string
		say    func()
	}
	keeps := func(s served) {
		token := env.Get(s.t, s.client, "k")
		require.NotEmpty(s.t, token)
		s.say()
		time.Sleep(300 * time.Millisecond)
		require.Equal(s.t, token, env.Get(s.t, s.client, "k"), "it has freed the key")
	}
	whole := func(t *testing.T, l *rlock.Locker, opts ...rlock.Option) *rlock.Lock {
		return env.MustLock(t)(l.Acquire(t.Context(), "k", opts...))
	}
	for name, test := range map[string]struct {
		after time.Duration // it stands in the queue, the lock is free
		waits func(t *testing.T, l *rlock.Locker) *rlock.Lock
		then  func(s served)
	}{
		"handed on in the process": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock { return whole(t, l, rlock.WithFence(false)) },
			then: func(s served) {
				first, next := env.Taken(s.t, s.got), make(chan *rlock.Lock, 1)
				go func() { next <- whole(s.t, s.l, rlock.WithFence(false)) }()
				env.AwaitWaiting(s.t, s.l, 1)
				require.NoError(s.t, first.Release(s.t.Context()))
				lock := env.Taken(s.t, next)
				require.Equal(s.t, s.token, env.Get(s.t, s.client, "k"), "it has gone on with its token")
				keeps(s)
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"detached": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock { return whole(t, l) },
			then: func(s served) {
				handoff := env.Detach(s.t, env.Taken(s.t, s.got))
				keeps(s)
				lock, err := env.NewLocker(s.t, s.client).Attach(s.t.Context(), handoff)
				require.NoError(s.t, err)
				keeps(s)
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"with another token": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock { return whole(t, l) },
			then: func(s served) {
				lock := env.Taken(s.t, s.got)
				require.NoError(s.t, lock.Extend(s.t.Context(), 5*time.Second))
				keeps(s)
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"kept for a while after its release": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return whole(t, l,
					rlock.WithMinHold(5*time.Second))
			},
			then: func(s served) {
				require.NoError(s.t, env.Taken(s.t, s.got).Release(s.t.Context()))
				keeps(s)
				require.NoError(s.t, env.Admin(s.l).ForceRelease(s.t.Context(), "k", env.Get(s.t, s.client, "k")))
			},
		},
		"over here, and to keep others out": {
			after: 350 * time.Millisecond, // counted off the lease here, as it is of the place
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return whole(t, l, rlock.WithTTL(5*time.Second), rlock.WithMinHold(5*time.Second),
					rlock.WithAutoExtend(false))
			},
			then: func(s served) {
				lock := env.Taken(s.t, s.got)
				time.Sleep(time.Until(lock.Deadline()) - 100*time.Millisecond)
				token, left := env.Get(s.t, s.client, "k"), env.TTL(s.t, s.client, "k")
				ends := time.Now().Add(left)
				time.Sleep(time.Until(lock.Deadline()))
				require.ErrorIs(s.t, lock.Err(), rlock.ErrExpired)
				s.say()
				time.Sleep(100 * time.Millisecond)
				found := env.Get(s.t, s.client, "k")
				require.True(s.t, found == token || time.Until(ends) < 50*time.Millisecond, "it has freed the key")
			},
		},
		"a chosen token": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock { return whole(t, l, rlock.WithToken("chosen")) },
			then: func(s served) {
				lock := env.Taken(s.t, s.got)
				keeps(s)
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"with its token, others have another key and do not get one": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock { return whole(t, l) },
			then: func(s served) {
				lock := env.Taken(s.t, s.got)
				same := rlock.WithToken(lock.Token())
				other := env.MustLock(s.t)(s.l.Acquire(s.t.Context(), "other", same))
				keeps(s)
				require.NoError(s.t, other.Release(s.t.Context()))
				keeps(s)
				require.NoError(s.t, env.Do(s.t, s.client, "SET", "busy", "stranger").Error())
				_, err := s.l.TryAcquire(s.t.Context(), "busy", same)
				require.ErrorIs(s.t, err, rlock.ErrHeld)
				keeps(s)
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"over here, and another has made it longer by its token": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return whole(t, l, rlock.WithTTL(2*time.Second), rlock.WithAutoExtend(false))
			},
			then: func(s served) {
				lock := env.Taken(s.t, s.got)
				same := rlock.WithToken(lock.Token())
				other := env.MustLock(s.t)(env.NewLocker(s.t, s.client).Acquire(s.t.Context(), "k", same,
					rlock.WithTTL(time.Minute)))
				env.AwaitEnd(s.t, lock, rlock.ErrExpired)
				keeps(s)
				require.NoError(s.t, other.Release(s.t.Context()))
			},
		},
		"released, and another's": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock { return whole(t, l) },
			then: func(s served) {
				require.NoError(s.t, env.Taken(s.t, s.got).Release(s.t.Context()))
				lock := whole(s.t, s.l)
				keeps(s)
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"a set": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return env.MustLock(t)(l.AcquireAll(t.Context(), []string{"k", "z"}))
			},
			then: func(s served) {
				lock := env.Taken(s.t, s.got)
				keeps(s)
				require.Equal(s.t, lock.Token(), env.Get(s.t, s.client, "z"))
				require.NoError(s.t, lock.Release(s.t.Context()))
			},
		},
		"readers": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return env.MustLock(t)(l.AcquireShared(t.Context(), "k"))
			},
			then: func(s served) {
				first := env.Taken(s.t, s.got)
				second := env.MustLock(s.t)(s.l.AcquireShared(s.t.Context(), "k"))
				require.NoError(s.t, first.Release(s.t.Context()))
				keeps(s)
				require.NoError(s.t, second.Verify(s.t.Context()))
				require.NoError(s.t, second.Release(s.t.Context()))
			},
		},
		"readers, of whom one is over": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return env.MustLock(t)(l.AcquireShared(t.Context(), "k", rlock.WithTTL(2*time.Second),
					rlock.WithAutoExtend(false)))
			},
			then: func(s served) {
				first := env.Taken(s.t, s.got)
				second := env.MustLock(s.t)(s.l.AcquireShared(s.t.Context(), "k", rlock.WithTTL(2*time.Second)))
				env.AwaitEnd(s.t, first, rlock.ErrExpired)
				keeps(s)
				require.NoError(s.t, second.Verify(s.t.Context()))
				require.NoError(s.t, second.Release(s.t.Context()))
			},
		},
		"a permit that was handed on": {
			waits: func(t *testing.T, l *rlock.Locker) *rlock.Lock {
				return env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2))
			},
			then: func(s served) {
				first, other := env.Taken(s.t, s.got), env.MustLock(s.t)(s.l.AcquirePermits(s.t.Context(), "k", 1, 2))
				next := make(chan *rlock.Lock, 1)
				go func() { next <- env.MustLock(s.t)(s.l.AcquirePermits(s.t.Context(), "k", 1, 2)) }()
				env.AwaitWaiting(s.t, s.l, 1)
				require.NoError(s.t, first.Release(s.t.Context()))
				lock := env.Taken(s.t, next)
				keeps(s)
				require.NoError(s.t, lock.Extend(s.t.Context(), time.Minute))
				require.NoError(s.t, lock.Release(s.t.Context()))
				require.NoError(s.t, other.Release(s.t.Context()))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				server := e.Start(t)
				// so that a lease goes on
				client, l := server.Client(t),
					env.OpenOn(t, server, rlock.WithAutoExtend(true), rlock.WithTurn(time.Minute))
				held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k", rlock.WithTTL(time.Minute)))
				got := make(chan *rlock.Lock, 1)
				go func() { got <- test.waits(t, l) }()
				env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "it stands in the queue")
				member := queued(t, client, "k")[0]
				time.Sleep(test.after)
				require.NoError(t, held.Release(t.Context()))
				test.then(served{t, client, l, got, strings.SplitN(member, ":", 3)[2],
					func() { says(t, client, "k", member) }})
				idle(t, client, "k")
			})
		})
	}
}

// Whoever has waited and then forgets its lock does not have its token for ever: a grant of it goes back.
func TestGrantForAForgottenLockGoesBack(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]func(t *testing.T, l *rlock.Locker, opts ...rlock.Option) *rlock.Lock{
		"the whole key": func(t *testing.T, l *rlock.Locker, opts ...rlock.Option) *rlock.Lock {
			return env.MustLock(t)(l.Acquire(t.Context(), "k", opts...))
		},
		"a reader": func(t *testing.T, l *rlock.Locker, opts ...rlock.Option) *rlock.Lock {
			return env.MustLock(t)(l.AcquireShared(t.Context(), "k", opts...))
		},
		"a permit": func(t *testing.T, l *rlock.Locker, opts ...rlock.Option) *rlock.Lock {
			return env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, opts...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			client, l := server.Client(t), env.OpenOn(t, server)
			held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k", rlock.WithTTL(time.Minute)))
			got := make(chan *rlock.Lock, 1)
			go func() { got <- forgets(t, l, rlock.WithTTL(time.Second)) }()
			env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "it stands in the queue")
			member := queued(t, client, "k")[0]
			require.NoError(t, held.Release(t.Context()))
			env.Taken(t, got)
			time.Sleep(1500 * time.Millisecond)
			// so that it looks
			results, err := l.TryAcquireEach(t.Context(), env.Keys(4000), rlock.WithTTL(time.Minute))
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, env.Do(t, client, "SET", "k", strings.SplitN(member, ":", 3)[2]).Error())
			says(t, client, "k", member)
			env.Soon(t, func() bool { return env.Get(t, client, "k") == "" }, "it goes back")
		})
	}
}
