package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A set that is released passes each of its keys on to the process that waits first for it, in one
// script, whether its keys have one fence counter or several.
func TestReleaseOfASetPassesOn(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b, c := env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server)
		for _, keys := range [][]string{{"i", "j", "k"}, {"{s}i", "{s}j", "{s}k"}} {
			for passed := false; !passed; {
				set := env.MustLock(t)(a.AcquireAll(t.Context(), keys))
				first, second := waits(t, client, b, keys[1]), waits(t, client, b, keys[2])
				last := waits(t, client, c, keys[2])
				before := server.ScriptCalls(t)
				require.NoError(t, set.Release(t.Context()))
				j, k := env.Taken(t, first), env.Taken(t, second)
				// those that others wait for are passed on one by one; otherwise a heartbeat came in between
				passed = server.ScriptCalls(t) == before+3
				require.Greater(t, j.Fence(), set.Fence())
				require.Greater(t, k.Fence(), set.Fence())
				require.Empty(t, env.Get(t, client, keys[0]))
				require.NoError(t, j.Release(t.Context()))
				require.NoError(t, k.Release(t.Context()))
				require.NoError(t, env.Taken(t, last).Release(t.Context()))
				for _, key := range keys {
					idle(t, client, key)
				}
			}
		}
	})
}

// A release of a set frees the keys for which nobody waits, and then passes the others on. If the first of
// the two answers is lost, the next try finds the others only, and the set was not lost.
func TestReleaseOfASetLosesItsFirstAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, l, client := env.NewFaulty(t, e)
		set := env.MustLock(t)(l.AcquireAll(t.Context(), []string{"i", "j"}))
		got := waits(t, client, env.NewLocker(t, client), "i")
		f.When(env.Once(gen.ReleaseManySHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			run()
			return env.NoReply()
		}))
		require.NoError(t, set.Release(t.Context()))
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		idle(t, client, "i")
		idle(t, client, "j")
	})
}

// Sets of any size are released, whether or not somebody waits for a key of theirs.
func TestReleaseOfSetsOfAnySize(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	a, b := env.OpenOn(t, server), env.OpenOn(t, server)
	for _, size := range []int{2, 127, 128, 129, 1500} {
		var keys []string
		for i := range size {
			keys = append(keys, fmt.Sprintf("%d of %d", i, size))
		}
		set := env.MustLock(t)(a.AcquireAll(t.Context(), keys))
		require.NoError(t, set.Release(t.Context()))
		set = env.MustLock(t)(a.AcquireAll(t.Context(), keys, rlock.WithTTL(time.Minute)))
		got := waits(t, client, b, keys[size-1])
		require.NoError(t, env.Do(t, client, "DEL", keys[0]).Error())
		require.ErrorIs(t, set.Release(t.Context()), rlock.ErrLost)
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		for _, key := range keys {
			idle(t, client, key)
		}
	}
}

// A set that is released does not get its keys again before those who wait for them.
func TestASetTakesItsTurn(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b := env.OpenOn(t, server), env.OpenOn(t, server)
		set := env.MustLock(t)(a.AcquireAll(t.Context(), []string{"i", "j"}))
		got := waits(t, client, b, "j")
		require.NoError(t, set.Release(t.Context()))
		_, err := a.TryAcquireAll(t.Context(), []string{"i", "j"})
		require.ErrorIs(t, err, rlock.ErrHeld)
		passesOn(t, client, "j", env.Taken(t, got), acquiresAll(t, a, "i", "j"))
	})
}

// acquiresAll has a Locker acquire a set.
func acquiresAll(t *testing.T, l *rlock.Locker, keys ...string) <-chan *rlock.Lock {
	t.Helper()
	got := make(chan *rlock.Lock, 1)
	go func() {
		defer close(got)
		lock, err := l.AcquireAll(context.WithoutCancel(t.Context()), keys)
		if err != nil {
			t.Error(err)
			return
		}
		got <- lock
	}()
	return got
}

// collectsInOrder has set acquire the keys i and j, until it has i and waits for j. It returns the lock of j.
func collectsInOrder(t *testing.T, client rueidis.Client, set func()) (j *rlock.Lock) {
	t.Helper()
	waiters := func(key string) int { return len(queued(t, client, key)) }
	return env.CollectsInOrder(t, waiters, set, env.NewLocker(t, client), "i", "j")
}

// acquiresInOrder is collectsInOrder with a Locker.
func acquiresInOrder(
	t *testing.T, client rueidis.Client, l *rlock.Locker, opts ...rlock.Option,
) (got <-chan *rlock.Lock, j *rlock.Lock) {
	t.Helper()
	set := make(chan *rlock.Lock, 1)
	j = collectsInOrder(t, client, func() {
		set <- env.MustLock(t)(l.AcquireAll(context.WithoutCancel(t.Context()), []string{"i", "j"}, opts...))
	})
	return set, j
}

// A set that waits for one key after the other comes before those who came after it, for each of them: also
// for one whose queue it joins later than they did. It holds nothing meanwhile.
func TestASetWaitsOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		first, second := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "i")),
			env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "j"))
		set := acquiresAll(t, env.OpenOn(t, server), "j", "i")
		env.Soon(
			t, func() bool { return len(queued(t, client, "j")) == 1 }, "the set waits for the first in its way",
		)
		require.Empty(t, queued(t, client, "i"))
		later := waits(t, client, env.OpenOn(t, server), "i")
		require.NoError(t, second.Release(t.Context()))
		env.Soon(t, func() bool { return len(queued(t, client, "i")) == 2 }, "it waits for the other")
		require.Empty(t, env.Get(t, client, "j"))
		require.NoError(t, first.Release(t.Context()))
		lock := env.Taken(t, set)
		require.Equal(t, lock.Token(), env.Get(t, client, "j"))
		passesOn(t, client, "i", lock, later)
		idle(t, client, "j")
	})
}

// A set that loses a key while it waits for the next one leaves that queue: it would have its keys out of the
// order of their names, and could block another set.
func TestASetThatLosesAKeyBeginsAnew(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		got, held := acquiresInOrder(t, client, env.OpenOn(t, server))
		require.NoError(t, env.Do(t, client, "SET", "i", "another token", "PX", "60000").Error())
		env.Soon(t, func() bool { return len(queued(t, client, "j")) == 0 }, "it leaves the queue")
		require.NoError(t, held.Release(t.Context()))
		require.Empty(t, env.Get(t, client, "j"))
		require.NoError(t, env.Do(t, client, "DEL", "i").Error())
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		idle(t, client, "i")
		idle(t, client, "j")
	})
}

// A free key that somebody waits for is not taken by a set, whole or in part. If those who wait are dead, a
// caller who would not wait gets it.
func TestASetOvertakesNobody(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		keys := []string{"{set}i", "{set}j", "{set}k"}
		queue := queueName(keys[1])
		stands(t, client, queue, "1", "60000:nobody:dead")
		params := gen.AcquireAllParams{Keys: append(keys[:3:3], queueName(keys[0]), queue, queueName(keys[2])),
			Token: "set", Locks: 3, Queued: true}
		reply, err := gen.New().AcquireAll(t.Context(), client, params)
		require.NoError(t, err)
		require.Equal(t, gen.AcquireAllResult{Held: 2, Remaining: -2 * time.Millisecond}, reply)
		require.Empty(t, env.Get(t, client, keys[0]))
		params.Partial = true
		reply, err = gen.New().AcquireAll(t.Context(), client, params)
		require.NoError(t, err)
		require.Equal(t, gen.AcquireAllResult{Held: 2, Remaining: -2 * time.Millisecond}, reply)
		require.Equal(t, "set", env.Get(t, client, keys[0]))
		require.Empty(t, env.Get(t, client, keys[2]))
		require.NoError(t, env.Do(t, client, "SET", keys[1], "set").Error())
		reply, err = gen.New().AcquireAll(t.Context(), client, params)
		require.NoError(t, err)
		require.True(t, reply.Acquired, "what it has, it keeps")

		require.NoError(t, env.Do(t, client, "DEL", keys[0], keys[1], keys[2]).Error())
		locker, err := rlock.New(client)
		require.NoError(t, err)
		defer locker.Close()
		set := env.MustLock(t)(locker.TryAcquireAll(t.Context(), keys))
		require.NoError(t, set.Release(t.Context()))
	})
}

// queueName returns the name of the queue of a key with the tag set.
func queueName(key string) string { return "rlock:queue:{2834}:" + key }

// A set that is granted a key after it has lost one before gives the other back at once.
func TestASetIsGrantedAKeyAfterALoss(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		got, held := acquiresInOrder(t, client, env.OpenOn(t, server))
		require.NoError(t, env.Do(t, client, "SET", "i", "another token", "PX", "60000").Error())
		require.NoError(t, held.Release(t.Context())) // before the next heartbeat, in most cases
		env.Soon(t, func() bool { return len(queued(t, client, "i")) == 1 && env.Get(t, client, "j") == "" },
			"it waits for the first key, and has no other")
		require.NoError(t, env.Do(t, client, "DEL", "i").Error())
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		idle(t, client, "i")
		idle(t, client, "j")
	})
}

// A set whose place is lost has it again with its next heartbeat, before those who came later.
func TestPlaceOfASetIsLost(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "i", rlock.WithTTL(time.Minute)))
		set := acquiresAll(t, env.OpenOn(t, server), "i", "j")
		env.Soon(t, func() bool { return len(queued(t, client, "i")) == 1 }, "the set waits")
		later := waits(t, client, env.OpenOn(t, server), "i")
		start := time.Now()
		server.Do(t, "DEL", queueOf(t, client, "i"))
		env.Soon(t, func() bool { return len(queued(t, client, "i")) == 2 }, "both wait again")
		require.Less(t, time.Since(start), 2*time.Second)
		require.NoError(t, held.Release(t.Context()))
		passesOn(t, client, "i", env.Taken(t, set), later)
	})
}

// A set gives back what it has if the server refuses one of its calls because it cannot serve for a moment,
// also if its policy pauses for long. Then it goes on.
func TestASetGivesBackAfterAnOutage(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	other := env.NewLocker(t, client)
	got, j := acquiresInOrder(t, client, l, rlock.WithTTL(time.Hour), rlock.WithRetry(rlock.Fixed(time.Hour)))
	f.When(
		env.Once(
			gen.WaitSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult { return f.Refuse("LOADING later") },
		),
	)
	wait, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	i := env.MustLock(t)(other.Acquire(wait, "i"))
	require.NoError(t, i.Release(t.Context()))
	require.NoError(t, j.Release(t.Context()))
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
}

// A retry policy is asked after its pause, and neither after a heartbeat nor when a set begins or ends to
// take its keys one by one: what waits for one pause has made one attempt.
func TestHeartbeatsAreNoAttempts(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	other, l := env.OpenOn(t, server), env.OpenOn(t, server)
	for name, acquire := range map[string]func(ctx context.Context, key string,
		policy rlock.Option) (*rlock.Lock, error){
		"key": func(ctx context.Context, key string, policy rlock.Option) (*rlock.Lock, error) {
			return l.Acquire(ctx, key, policy)
		},
		"token": func(ctx context.Context, key string, policy rlock.Option) (*rlock.Lock, error) {
			return l.Acquire(ctx, key, policy, rlock.WithToken("chosen"))
		},
		"set": func(ctx context.Context, key string, policy rlock.Option) (*rlock.Lock, error) {
			return l.AcquireAll(ctx, []string{key, key + "2"}, policy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.MustLock(t)(other.Acquire(t.Context(), name, rlock.WithTTL(time.Hour)))
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
			defer cancel()
			asked := 0
			_, err := acquire(ctx, name, rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
				asked++
				return time.Hour, true
			}).MaxAttempts(2)))
			var failed *rlock.AcquireError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 1, failed.Attempts)
			require.Equal(t, 1, asked)
		})
	}
}

// A caller that is first in the queue of a key notices at once that somebody has deleted the key, also if a
// set of its Locker has waited for that key before and waits for another one now.
func TestASetLeavesTheWaitForAKey(t *testing.T) {
	t.Parallel()
	const rounds = 5
	server := env.Start(t)
	client := server.Client(t)
	holder, l := env.OpenOn(t, server), env.OpenOn(t, server)
	// who waits behind two does not watch the key
	before := []*rlock.Locker{env.OpenOn(t, server), env.OpenOn(t, server)}
	var late []time.Duration
	for n := range rounds {
		i, j := fmt.Sprint("i", n), fmt.Sprint("j", n)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		held := env.MustLock(t)(holder.Acquire(t.Context(), i, rlock.WithTTL(time.Minute)))
		env.MustLock(t)(holder.Acquire(t.Context(), j, rlock.WithTTL(time.Minute)))
		for at, other := range before {
			go func() { _, _ = other.Acquire(ctx, j) }()
			env.Soon(t, func() bool { return len(queued(t, client, j)) == at+1 }, "it waits")
		}
		go func() { _, _ = l.AcquireAll(ctx, []string{i, j}, rlock.WithTTL(time.Minute)) }()
		env.Soon(t, func() bool { return len(queued(t, client, i)) == 1 }, "the set waits for the first key")
		time.Sleep(50 * time.Millisecond) // until it watches the key
		require.NoError(t, held.Release(t.Context()))
		env.Soon(t, func() bool { return len(queued(t, client, j)) == 3 }, "the set waits for the other key")
		env.MustLock(t)(holder.Acquire(t.Context(), i, rlock.WithTTL(time.Minute)))
		got := waits(t, client, l, i)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		require.NoError(t, env.Do(t, client, "DEL", i).Error())
		lock := env.Taken(t, got)
		late = append(late, time.Since(start))
		require.NoError(t, lock.Release(t.Context()))
		cancel()
	}
	slices.Sort(late)
	require.Less(t, late[rounds/2], 150*time.Millisecond, "%v", late)
}
