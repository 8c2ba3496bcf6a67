package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	long  = time.Minute
	short = 3 * time.Second        // a lease that is awaited
	soon  = 20 * time.Second       // bounds what must happen
	while = 100 * time.Millisecond // is long enough for what must not happen to be seen
)

// pair is a library and rlock on one server.
type pair struct {
	library
	theirs locker
	ours   *rlock.Locker
	server *env.Server
	lock   string   // the name
	keys   []string // those that rlock takes for it
}

// tryTheirs returns nil if theirs is refused, and otherwise once it has all of its keys: rueidislock takes
// the last of them later.
func (p pair) tryTheirs(t *testing.T, ttl time.Duration) holding {
	t.Helper()
	h, err := p.theirs.try(t.Context(), p.lock, ttl)
	require.NoError(t, err)
	if h == nil || len(p.keys) == 1 {
		return h
	}
	env.Soon(t, func() bool {
		n, err := new(p.server.Do(t, append([]string{"EXISTS"}, p.keys...)...)).AsInt64()
		return err == nil && n == int64(len(p.keys))
	}, "it has all of its keys")
	return h
}

func (p pair) acquire(ctx context.Context, opts ...rlock.Option) (*rlock.Lock, error) {
	return p.ours.AcquireAll(ctx, p.keys, opts...)
}

func (p pair) tryOurs(t *testing.T) *rlock.Lock {
	t.Helper()
	lock, err := p.ours.TryAcquireAll(t.Context(), p.keys, rlock.WithTTL(long))
	require.NoError(t, err)
	return lock
}

// remove deletes the keys, as an administrator does who forces a lock away.
func (p pair) remove(t *testing.T) {
	t.Helper()
	p.server.Do(t, append([]string{"DEL"}, p.keys...)...)
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		test func(t *testing.T, p pair)
	}{
		{"theirs is held", theirsIsHeld},
		{"ours is held", oursIsHeld},
		{"theirs expires", theirsExpires},
		{"ours is forced away", oursIsForcedAway},
		{"theirs is forced away", theirsIsForcedAway},
		{"ours is shared by readers",
			oursIsSharedBy((*rlock.Locker).TryAcquireShared, (*rlock.Locker).AcquireShared)},
		{"ours is shared by permits", oursIsSharedBy(tryPermit, permit)},
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for _, library := range libraries {
			t.Run(library.name, func(t *testing.T) {
				t.Parallel()
				p := pair{library: library, theirs: library.open(t, server.Addr()), server: server}
				var err error
				p.ours, err = rlock.Open(server.Option())
				require.NoError(t, err)
				t.Cleanup(p.ours.Close)
				for _, test := range tests {
					t.Run(test.name, func(t *testing.T) {
						p := p
						p.lock = library.name + ", " + test.name
						p.keys = p.library.keys(p.lock)
						test.test(t, p)
					})
				}
			})
		}
	})
}

// theirsIsHeld: ours is refused and waits, and rlock knows the holder's token and time.
func theirsIsHeld(t *testing.T, p pair) {
	theirs := p.tryTheirs(t, long)
	require.NotNil(t, theirs)

	_, err := p.ours.TryAcquireAll(t.Context(), p.keys)
	require.ErrorIs(t, err, rlock.ErrHeld)
	var facts *rlock.AcquireError
	require.ErrorAs(t, err, &facts)
	require.Greater(t, facts.Remaining, time.Duration(0))
	require.LessOrEqual(t, facts.Remaining, long)

	state := env.HolderOf(t, p.ours, p.keys[0])
	value, err := new(p.server.Do(t, "GET", p.keys[0])).ToString()
	require.NoError(t, err)
	require.Equal(t, value, state.Token(), "the token is the whole value")
	require.NotEqual(t, value[:len(value)-1], state.Token())
	require.Greater(t, state.Remaining, long/2)

	got := make(chan error, 1)
	go func() {
		lock, err := p.acquire(t.Context())
		if err == nil {
			err = lock.Release(t.Context())
		}
		got <- err
	}()
	select {
	case err := <-got:
		require.Fail(t, "rlock did not wait", "%v", err)
	case <-time.After(while):
	}
	own, err := theirs.release(t.Context())
	require.NoError(t, err)
	require.True(t, own)
	require.NoError(t, env.ReceiveWithin(t, soon, got), "rlock gets what was released")
}

// oursIsHeld: theirs is refused until ours is released, and its refusal leaves ours alone.
func oursIsHeld(t *testing.T, p pair) {
	ours := p.tryOurs(t)
	require.Nil(t, p.tryTheirs(t, long))
	require.True(t, held(t, ours))
	require.NoError(t, ours.Release(t.Context()))
	theirs := p.tryTheirs(t, long)
	require.NotNil(t, theirs)
	own, err := theirs.release(t.Context())
	require.NoError(t, err)
	require.True(t, own)
}

// theirsExpires: ours gets it then, and keeps it when they come back.
func theirsExpires(t *testing.T, p pair) {
	theirs := p.tryTheirs(t, short)
	require.NotNil(t, theirs)
	if k, ok := theirs.(keeper); ok {
		k.die()
	}
	asked := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	ours, err := p.acquire(ctx, rlock.WithTTL(long))
	require.NoError(t, err)
	require.Less(t, time.Since(asked), soon/2)
	if _, ok := theirs.(keeper); !ok { // which is dead
		comesBack(t, theirs)
	}
	require.True(t, held(t, ours))
	require.NoError(t, ours.Release(t.Context()))
}

// oursIsForcedAway: theirs gets it, and rlock learns that and leaves it alone.
func oursIsForcedAway(t *testing.T, p pair) {
	ours := p.tryOurs(t)
	lost := ours.Context()
	p.remove(t)
	theirs := p.tryTheirs(t, long)
	require.NotNil(t, theirs)
	env.ReceiveWithin(t, soon, lost.Done())
	require.ErrorIs(t, context.Cause(lost), rlock.ErrLost)
	require.ErrorIs(t, ours.Release(t.Context()), rlock.ErrNotHeld)
	own, err := theirs.release(t.Context())
	require.NoError(t, err)
	require.True(t, own, "rlock released a lock of theirs")
}

// theirsIsForcedAway: ours gets it, and whatever they do then leaves it alone.
func theirsIsForcedAway(t *testing.T, p pair) {
	theirs := p.tryTheirs(t, long)
	require.NotNil(t, theirs)
	for _, key := range p.keys { // rueidislock gives up the last when it has lost two
		token, err := new(p.server.Do(t, "GET", key)).ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		require.NoError(t, err)
		if err := env.Admin(p.ours).ForceRelease(t.Context(), key, token); !errors.Is(err, rlock.ErrNotHeld) {
			require.NoError(t, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	ours, err := p.acquire(ctx, rlock.WithTTL(long))
	require.NoError(t, err)
	if k, ok := theirs.(keeper); ok {
		env.ReceiveWithin(t, soon, k.lost())
	}
	if e, ok := theirs.(extender); ok {
		own, err := e.extend(t.Context(), 2*long)
		require.NoError(t, err)
		require.False(t, own, "what is lost was extended")
	}
	comesBack(t, theirs)
	require.True(t, held(t, ours))
	require.NoError(t, ours.Release(t.Context()))
}

type acquireOne func(l *rlock.Locker, ctx context.Context, key string, opts ...rlock.Option) (*rlock.Lock,
	error)

func permit(l *rlock.Locker, ctx context.Context, key string, opts ...rlock.Option) (*rlock.Lock, error) {
	return l.AcquirePermits(ctx, key, 1, 2, opts...)
}

func tryPermit(l *rlock.Locker, ctx context.Context, key string, opts ...rlock.Option) (*rlock.Lock, error) {
	return l.TryAcquirePermits(ctx, key, 1, 2, opts...)
}

// oursIsSharedBy: theirs sees an ordinary held lock until the last share is released, and what it does
// about a lock that it has lost leaves the shares alone; while theirs is held, a share waits.
func oursIsSharedBy(try, acquire acquireOne) func(t *testing.T, p pair) {
	return func(t *testing.T, p pair) {
		ctx := t.Context()
		share := func() (shares []*rlock.Lock) {
			for _, key := range p.keys {
				lock, err := try(p.ours, ctx, key, rlock.WithTTL(long))
				require.NoError(t, err)
				shares = append(shares, lock)
			}
			return shares
		}
		unchanged := func(shares []*rlock.Lock) {
			t.Helper()
			for _, lock := range shares {
				require.True(t, held(t, lock))
				value, err := new(p.server.Do(t, "GET", lock.Key())).ToString()
				require.NoError(t, err)
				require.Regexp(t, fmt.Sprintf("^rlock:(readers|permits) %d$", lock.Fence()), value)
			}
		}
		release := func(shares []*rlock.Lock) {
			t.Helper()
			for _, lock := range shares {
				require.NoError(t, lock.Release(ctx))
			}
		}

		lost := p.tryTheirs(t, long)
		require.NotNil(t, lost)
		for _, key := range p.keys {
			_, err := try(p.ours, ctx, key)
			require.ErrorIs(t, err, rlock.ErrHeld)
		}
		p.remove(t)
		if k, ok := lost.(keeper); ok { // it gives up what it has left when it has noticed
			env.ReceiveWithin(t, soon, k.lost())
		}
		one, two := share(), share()
		require.Nil(t, p.tryTheirs(t, long))
		unchanged(append(one, two...))
		if e, ok := lost.(extender); ok {
			own, err := e.extend(ctx, 2*long)
			require.NoError(t, err)
			require.False(t, own, "what is lost was extended")
		}
		comesBack(t, lost)
		unchanged(append(one, two...))
		release(one)
		require.Nil(t, p.tryTheirs(t, long), "somebody still shares it")
		unchanged(two)
		release(two)

		theirs := p.tryTheirs(t, long)
		require.NotNil(t, theirs)
		got := make(chan error, 1)
		go func() {
			lock, err := acquire(p.ours, ctx, p.keys[0])
			if err == nil {
				err = lock.Release(ctx)
			}
			got <- err
		}()
		select {
		case err := <-got:
			require.Fail(t, "the share did not wait", "%v", err)
		case <-time.After(while):
		}
		own, err := theirs.release(ctx)
		require.NoError(t, err)
		require.True(t, own)
		require.NoError(t, env.ReceiveWithin(t, soon, got), "the share gets what was released")
	}
}

// comesBack releases a lock that is another's by now.
func comesBack(t *testing.T, theirs holding) {
	t.Helper()
	own, err := theirs.release(t.Context())
	require.NoError(t, err)
	require.False(t, own, "what is lost was released")
}

// held asks the server.
func held(t *testing.T, lock *rlock.Lock) bool {
	t.Helper()
	err := lock.Verify(t.Context())
	if !errors.Is(err, rlock.ErrLost) {
		require.NoError(t, err)
	}
	return err == nil
}

// Of the three keys of rueidislock's default, any two exclude, in both directions.
func TestMajorityOfRueidislock(t *testing.T) {
	t.Parallel()
	server := env.Engines(t)[0].Start(t)
	ours, err := rlock.Open(server.Option())
	require.NoError(t, err)
	t.Cleanup(ours.Close)
	for _, two := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		name := fmt.Sprint("job ", two)
		all := rueidislockKeys(2)(name)
		keys := []string{all[two[0]], all[two[1]]}
		lock, err := ours.TryAcquireAll(t.Context(), keys)
		require.NoError(t, err)
		theirs, err := openRueidislock(2, false)(t, server.Addr()).try(t.Context(), name, long)
		require.NoError(t, err)
		require.Nil(t, theirs, "with keys %v held", two)
		require.NoError(t, lock.Release(t.Context()))
	}
}

// One of the keys alone does not exclude: a rueidislock whose first command is answered
// late goes on to the other two, and both have the lock. Two of them do.
func TestOneKeyOfRueidislockIsNotEnough(t *testing.T) {
	t.Parallel()
	server := env.Engines(t)[0].Start(t)
	ours, err := rlock.Open(server.Option())
	require.NoError(t, err)
	t.Cleanup(ours.Close)
	for held, both := range map[int]bool{1: true, 2: false} {
		t.Run(fmt.Sprintf("%d held", held), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("job ", held)
			keys := rueidislockKeys(2)(name)[:held]
			lock, err := ours.AcquireAll(t.Context(), keys, rlock.WithTTL(long))
			require.NoError(t, err)
			theirs := lateRueidislock(t, server, name)
			require.Equal(t, both, theirs)
			require.NoError(t, lock.Verify(t.Context()))
			require.NoError(t, lock.Err())
			require.NoError(t, lock.Release(t.Context()))
		})
	}
}

// bsm/redislock looks at no more of a value than its own token is long.
func TestTokenOfRedislockIsAPrefix(t *testing.T) {
	t.Parallel()
	server := env.Engines(t)[0].Start(t)
	ours, err := rlock.Open(server.Option())
	require.NoError(t, err)
	t.Cleanup(ours.Close)
	theirs := openBsm(t, server.Addr()).(bsm).client
	for token, taken := range map[string]bool{"abc": true, "abd": false, "abc-1": true, "abc-12": false} {
		key := "job " + token
		lock, err := ours.Acquire(t.Context(), key, rlock.WithToken("abc-1"), rlock.WithTTL(long))
		require.NoError(t, err)
		_, err = theirs.Obtain(t.Context(), key, long, &redislock.Options{Token: token})
		if taken {
			require.NoError(t, err, token)
		} else {
			require.ErrorIs(t, err, redislock.ErrNotObtained, token)
			require.NoError(t, lock.Release(t.Context()))
		}
	}
}

// lateRueidislock tells whether a rueidislock gets a lock whose first key's command is
// on its way for longer than TryNextAfter, while another command would still be in time.
func lateRueidislock(t *testing.T, server *env.Server, name string) bool {
	t.Helper()
	const patience = 2 * time.Second
	proxy := env.NewProxy(t, server.Addr())
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, ForceSingleClient: true},
		KeyValidity:  long, TryNextAfter: patience,
	})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	// The server knows the script then, so one command is one attempt.
	_, cancel, err := l.TryWithContext(t.Context(), "another "+name)
	require.NoError(t, err)
	cancel()

	first := []byte(rueidislockKeys(2)(name)[0])
	release := proxy.Hold(func(request []byte) bool { return bytes.Contains(request, first) })
	defer time.AfterFunc(patience*5/4, release).Stop()
	_, cancel, err = l.TryWithContext(t.Context(), name)
	require.Positive(t, proxy.Held())
	if err != nil {
		return false
	}
	cancel()
	return true
}
