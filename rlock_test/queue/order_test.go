package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// channels returns those on which processes listen for grants.
func channels(t *testing.T, client rueidis.Client) []string {
	t.Helper()
	names, err := env.Do(t, client, "PUBSUB", "SHARDCHANNELS").AsStrSlice()
	require.NoError(t, err)
	return names
}

// queueOf returns the name of the queue of a key; none if nobody waits.
func queueOf(t *testing.T, client rueidis.Client, key string) string {
	t.Helper()
	names, err := env.Do(t, client, "KEYS", "rlock:queue:{*}:"+key).AsStrSlice()
	require.NoError(t, err)
	return strings.Join(names, " ")
}

// queued returns who waits for a key on the server: of each "<lease>:<process>:<token>".
func queued(t *testing.T, client rueidis.Client, key string) (members []string) {
	t.Helper()
	queue := queueOf(t, client, key)
	tokens, err := env.Do(t, client, "ZRANGE", queue, "0", "-1").AsStrSlice()
	require.NoError(t, err)
	for _, token := range tokens {
		entry, err := env.Do(t, client, "HGET", waitersOf(queue), token).ToString()
		if rueidis.IsRedisNil(err) {
			continue // it was served meanwhile
		}
		require.NoError(t, err)
		words := strings.SplitN(entry, " ", 4) // heard, for how long, lease and process
		members = append(members, words[2]+":"+words[3]+":"+token)
	}
	return members
}

// waitersOf returns the name of the hash that says who waits in a queue.
func waitersOf(queue string) string {
	return strings.Replace(queue, "rlock:queue:", "rlock:waiters:", 1)
}

// stands puts a place into a queue, whose process was heard of just now. member is as queued has it.
func stands(t *testing.T, client rueidis.Client, queue, score, member string) {
	t.Helper()
	now, err := env.Do(t, client, "TIME").AsStrSlice()
	require.NoError(t, err)
	words := strings.SplitN(member, ":", 3)
	micros, err := strconv.Atoi(now[1])
	require.NoError(t, err)
	entry := fmt.Sprintf("%s%03d 2000 %s %s", now[0], micros/1000, words[0], words[1])
	require.NoError(t, env.Do(t, client, "ZADD", queue, score, words[2]).Error())
	require.NoError(t, env.Do(t, client, "HSET", waitersOf(queue), words[2], entry).Error())
}

// waits has a Locker of another process acquire a key, and returns once it stands in the queue.
func waits(t *testing.T, client rueidis.Client, l *rlock.Locker, key string,
	opts ...rlock.Option) <-chan *rlock.Lock {
	t.Helper()
	return env.Enqueue(t, func() int { return len(queued(t, client, key)) }, l, key, opts...)
}

// passesOn releases the lock of a key, which the waiter has then and releases too. Nothing is left.
func passesOn(t *testing.T, client rueidis.Client, key string, held *rlock.Lock, got <-chan *rlock.Lock) {
	t.Helper()
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
	idle(t, client, key)
}

// idle requires that nothing is left of a key.
func idle(t *testing.T, client rueidis.Client, key string) {
	t.Helper()
	env.Soon(t, func() bool {
		known, err := env.Do(t, client, "KEYS", "rlock:waiters:{*}:"+key).AsStrSlice()
		require.NoError(t, err)
		return env.Get(t, client, key) == "" && queueOf(t, client, key) == "" && len(known) == 0
	}, "the key and its queue are gone")
}

// Nothing is left of a process that died while it waited in a queue that somebody has deleted since, although
// others go on to wait.
func TestDeadWaiterOfADeletedQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b := env.OpenOn(t, server), env.OpenOn(t, server)
		held := env.MustLock(t)(a.Acquire(t.Context(), "k", rlock.WithTTL(time.Minute)))
		next := waits(t, client, b, "k", rlock.WithTTL(time.Minute))
		queue := queueOf(t, client, "k")
		stands(t, client, queue, "1", "60000:gone:dead")
		server.Do(t, "DEL", queue)
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "who lives waits again")
		known, err := env.Do(t, client, "HLEN", waitersOf(queue)).ToInt64()
		require.NoError(t, err)
		require.Equal(t, int64(1), known, "only who lives is known")
		passesOn(t, client, "k", held, next)
	})
}

// Processes get the lock in the order in which they have come.
func TestQueueAcrossProcesses(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
		var got []<-chan *rlock.Lock
		for range 4 {
			got = append(got, waits(t, client, env.OpenOn(t, server), "k"))
		}
		fence := held.Fence()
		for i := range got {
			require.NoError(t, held.Release(t.Context()))
			held = env.Taken(t, got[i])
			require.Greater(t, held.Fence(), fence)
			fence = held.Fence()
			require.Len(t, queued(t, client, "k"), len(got)-1-i)
		}
		require.NoError(t, held.Release(t.Context()))
		idle(t, client, "k")
	})
}

// A process that has always got the lock at once asks to be told of grants from the end of its first turn
// on. So its callers need not look for their grants from time to time, and a turn costs two scripts at
// most: this one gives the lock away and takes the next place, that one may ask for fences.
func TestTurnsOfAProcessThatNeverWaited(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b := env.OpenOn(t, server, rlock.WithTurn(0)), env.OpenOn(t, server, rlock.WithTurn(0))
		const turns = 20 // of each
		held := env.MustLock(t)(a.Acquire(t.Context(), "k"))
		var ofA []<-chan *rlock.Lock
		for range turns {
			ofA = append(ofA, env.NextInLine(t, a, "k"))
		}
		ofB := []<-chan *rlock.Lock{waits(t, client, b, "k")}
		for range turns - 1 {
			ofB = append(ofB, env.NextInLine(t, b, "k"))
		}
		var before int64
		for i := range turns {
			require.NoError(t, held.Release(t.Context()))
			held = env.Taken(t, ofB[i])
			env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 && !silent(t, client, "k") },
				"a waits for its next turn, and is told of it")
			require.NoError(t, held.Release(t.Context()))
			held = env.Taken(t, ofA[i])
			if i == 0 {
				before = server.ScriptCalls(t)
			}
		}
		require.LessOrEqual(t, server.ScriptCalls(t)-before, int64(2*2*(turns-1)))
		require.NoError(t, held.Release(t.Context()))
		idle(t, client, "k")
	})
}

// After a holder has died, the first in the queue has the lock as soon as the lease is over, and
// not at its next heartbeat, which would be a quarter of a second later as a rule. How late a busy
// machine is anyway is measured beside: by sleeping as long, and one command.
func TestQueueAfterAHolderDied(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		first, second := env.OpenOn(t, server), env.OpenOn(t, server)
		const keys = 9
		late, machine := make([]time.Duration, keys), make([]time.Duration, keys)
		var measured sync.WaitGroup
		require.NoError(t, env.Together(keys, func(i int) error {
			key := fmt.Sprint("k", i)
			lease := 3*time.Second + time.Duration(i)*50*time.Millisecond
			begin := time.Now()
			if err := env.Do(t, client, "SET", key, "stranger", "PX",
				fmt.Sprint(lease.Milliseconds())).Error(); err != nil {
				return err
			}
			measured.Go(func() {
				time.Sleep(time.Until(begin.Add(lease)))
				_ = env.Do(t, client, "PING").Error()
				machine[i] = time.Since(begin) - lease
			})
			waiters := []<-chan *rlock.Lock{waits(t, client, first, key), waits(t, client, second, key)}
			for n := range waiters {
				lock := <-waiters[n]
				if lock == nil {
					return errors.New("it has not got the lock")
				}
				if n == 0 {
					late[i] = time.Since(begin) - lease
				}
				if err := lock.Release(t.Context()); err != nil {
					return err
				}
			}
			return nil
		}))
		measured.Wait()
		slices.Sort(late)
		slices.Sort(machine)
		t.Log(late, machine)
		require.Less(t, late[keys/2], 150*time.Millisecond+10*machine[keys/2])
	})
}

// After the holder and the processes in front of one have died, that one has the lock as soon as
// the lease is over if there was one of them, and otherwise 50 ms later for each other: it plans a
// heartbeat for then, although it need not follow the key so far from the head of the queue.
func TestQueueAfterManyDied(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		for n, most := range map[int]time.Duration{1: 0, 8: 350 * time.Millisecond} {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				diedBefore(t, e.Start(t), n, most)
			})
		}
	})
}

// However many dead wait before a process, they cost it no time: script after script takes out as many as one
// may, and none waits for a heartbeat.
func TestQueueBehindThousandsThatDied(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		l := env.OpenOn(t, server)
		held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "job"))
		got := waits(t, client, l, "job")
		queue := queueOf(t, client, "job")
		places, entries := []string{"ZADD", queue}, []string{"HSET", waitersOf(queue)}
		entry := fmt.Sprint(time.Now().UnixMilli(), " 60000 60000 nobody")
		for i := range 3000 {
			token := fmt.Sprint("dead", i)
			places = append(places, fmt.Sprint(i+1), token)
			entries = append(entries, token, entry)
		}
		require.NoError(t, env.Do(t, client, entries...).Error())
		require.NoError(t, env.Do(t, client, places...).Error())
		began := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.ReceiveWithin(t, 3*time.Second, got).Release(t.Context()))
		t.Log(time.Since(began))
		idle(t, client, "job")
	})
}

// diedBefore has a holder and n processes die, and measures when the one behind them has the lock.
func diedBefore(t *testing.T, server *env.Server, n int, most time.Duration) {
	client := server.Client(t)
	dying, last := server.Client(t), env.OpenOn(t, server)
	dead := make([]*rlock.Locker, n)
	for i := range dead {
		dead[i] = env.NewLocker(t, dying)
	}
	const keys, lease = 9, 5 * time.Second
	var late, machine [keys]time.Duration
	var waiting, measured sync.WaitGroup
	key := func(i int) string { return fmt.Sprint("k", i) }
	require.NoError(t, env.Together(keys, func(i int) error {
		// No lease ends while processes come, however long that takes.
		if err := env.Do(t, client, "SET", key(i), "stranger", "PX", "3600000").Error(); err != nil {
			return err
		}
		for n, l := range dead {
			go func() { _, _ = l.Acquire(t.Context(), key(i)) }()
			env.Soon(t, func() bool { return len(queued(t, client, key(i))) > n }, "it stands in the queue")
		}
		return nil
	}))
	require.NoError(t, env.Together(keys, func(i int) error {
		begin := time.Now()
		if err := env.Do(t, client, "PEXPIRE", key(i), fmt.Sprint(lease.Milliseconds())).Error(); err != nil {
			return err
		}
		got := waits(t, client, last, key(i))
		measured.Go(func() {
			time.Sleep(time.Until(begin.Add(lease + most)))
			_ = env.Do(t, client, "PING").Error()
			machine[i] = time.Since(begin) - lease - most
		})
		waiting.Go(func() {
			lock := <-got
			late[i] = time.Since(begin) - lease
			if lock != nil {
				_ = lock.Release(t.Context())
			}
		})
		return nil
	}))
	dying.Close() // nothing is released any more
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	waiting.Wait()
	measured.Wait()
	slices.Sort(late[:])
	slices.Sort(machine[:])
	t.Log(late, machine)
	require.Positive(t, late[0], "all waited for the lease")
	require.Less(t, late[keys/2], most+150*time.Millisecond+10*machine[keys/2])
}
