// Package rlocktest runs a Redis server inside a test or demo program, without an installation.
//
// The server is miniredis with four additions:
//
//   - TTLs run down in real time, and TIME moves. As in Redis, no key expires while a script runs.
//   - Client-side caching works: the server knows CLIENT TRACKING and CLIENT CACHING, and pushes
//     invalidations to RESP3 connections. A rueidis client with default options can use DoCache.
//   - When a key expires, the server tells the clients that cached the key within some 20 milliseconds.
//   - Sharded channels work: SSUBSCRIBE, SUNSUBSCRIBE, SPUBLISH and PUBSUB SHARDNUMSUB. Scripts can use the
//     last two, but not after a call of [miniredis.Miniredis.SetError]. MULTI refuses all four.
//
// A test needs one line, after go get github.com/rlock-go/toolkit/rlock/rlocktest@main:
//
//	client := rlocktest.Client(t)
//
// # Client-side caching
//
// As in Redis, the server tracks keys by name, in all databases together. It sends one invalidation for each
// time that a client read the key. It supports OPTIN, OPTOUT, BCAST, PREFIX and NOLOOP, but not REDIRECT. A
// command that changes nothing, such as SET NX on a key that exists, makes no invalidation, also inside a
// script. Some commands make too many invalidations, but none makes too few:
//
//   - A script counts as a reader of all its keys.
//   - A write inside MULTI always counts as a change. If the reply of a write does not say whether something
//     changed, the write counts as a change too.
//   - The server sees the changes of a script command by command. After [miniredis.Miniredis.SetError] a
//     script counts as a change of all its keys, and only of those.
//   - While a connection waits in a blocking command, its invalidations wait too.
//
// Two kinds of change make no invalidation: methods of [Server.Redis] that write, and a hash field that
// expires by itself. MULTI refuses CLIENT TRACKING and CLIENT CACHING.
//
// # Failures
//
// A test can make the server fail:
//
//   - [Server.FailNext]: the server refuses the next command that matches, with an error.
//   - [Server.LoseReply]: the command runs, and its connection breaks before the answer.
//   - [Server.Silence]: the network swallows everything until the test lifts the silence.
//   - [Server.Delay]: each answer takes longer.
//   - [Server.Stop] and [Server.Restart]: a crash, with or without the data.
//   - [Server.Take], [Server.Free] and [Server.Shorten]: a stranger takes, deletes or shortens a lock.
//
// Each failure does to a lock what a real server behind a broken network does. The tests of this module run
// the same failures against both.
//
// # Time
//
// A test of leases need not wait for them. [StartInMemory] returns a server without a listener. Make the
// server, its clients and its locks in one bubble of [testing/synctest]: then all of them have the clock of
// the bubble. [Server.Advance] moves that clock. Before Advance returns, keys expire at the server, leases
// end or are extended, and waiters get their locks. Each Locker of the test stands for a process of its own.
//
// A lease that runs out:
//
//	func TestAdvanceEndsALease(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := rlocktest.StartInMemory(t)
//			mine, theirs := opened(t, server), opened(t, server)
//			lock, err := mine.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second))
//			require.NoError(t, err)
//
//			server.Advance(29 * time.Second)
//			require.NoError(t, lock.Err())
//			_, err = theirs.TryAcquire(t.Context(), "job")
//			require.ErrorIs(t, err, rlock.ErrHeld)
//
//			server.Advance(time.Second)
//			require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrExpired)
//			_, err = theirs.TryAcquire(t.Context(), "job")
//			require.NoError(t, err)
//		})
//	}
//
//	func opened(t *testing.T, server *rlocktest.Server, opts ...rlock.LockerOption) *rlock.Locker {
//		t.Helper()
//		locker, err := rlock.Open(server.Option(), opts...)
//		require.NoError(t, err)
//		t.Cleanup(locker.Close)
//		return locker
//	}
//
// A lease with automatic extension, until the network is silent:
//
//	lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
//	require.NoError(t, err)
//
//	server.Advance(10 * time.Minute)
//	require.NoError(t, lock.Err())
//
//	server.Silence() // nobody can renew it
//	server.Advance(30 * time.Second)
//	require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrExpired)
//
// A waiter that gets the lock after the holder's death:
//
//	dies, waits := opened(t, server), opened(t, server)
//	_, err := dies.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
//	require.NoError(t, err)
//	got := make(chan *rlock.Lock, 1)
//	go func() {
//		lock, err := waits.Acquire(t.Context(), "job")
//		assert.NoError(t, err)
//		got <- lock
//	}()
//
//	server.Advance(10 * time.Minute)
//	require.Empty(t, got) // it was renewed all the time
//
//	dies.Close() // as if its process had died: nobody renews the lock, nor releases it
//	server.Advance(31 * time.Second)
//	require.NoError(t, (<-got).Err())
//
// An hourly job that several machines with different clocks start:
//
//	runs := 0
//	start := func(locker *rlock.Locker) {
//		_, err := locker.TryDo(t.Context(), "report", func(context.Context, *rlock.Lock) error {
//			runs++
//			return nil
//		}, rlock.WithTTL(10*time.Minute), rlock.WithMinHold(10*time.Minute))
//		require.NoError(t, err)
//	}
//	one, other := opened(t, server), opened(t, server)
//
//	start(one)
//	server.Advance(5 * time.Minute) // by which the clock of the other machine is behind
//	start(other)
//	require.Equal(t, 1, runs)
//
//	server.Advance(55 * time.Minute)
//	start(other)
//	require.Equal(t, 2, runs)
//
// Time also moves by itself while every goroutine of the bubble waits. So a test may simply wait for an
// event: <-lock.Context().Done().
//
// The rules of such a test:
//
//   - Make the server, the Lockers and their clients inside the bubble, and close them there. A Cleanup of
//     the bubble's t runs inside the bubble. Anything from outside has another clock.
//   - A bubble ends with its test, so wait for the last work of other goroutines, such as a Release.
//   - All goroutines of the bubble must wait for something of the bubble. A goroutine that waits for a real
//     network, a process or a mutex stops the clock, and the test hangs.
//   - FastForward of [Server.Redis] moves the server alone, and no Locker: the clock of the server jumps.
//   - A server that listens has the time of the machine. There, [Server.Shorten] and [Server.Free] end a
//     lease at once.
//   - A lock that is extended or waited for costs some work for each second of the clock: an hour takes one
//     to three seconds of the machine's time.
//
// # What it does not do
//
// The server is not Redis. A test that passes here can fail with Redis:
//
//   - It is a single node with cluster support disabled. It accepts commands and scripts over keys of
//     different slots, and a cluster refuses them.
//   - Scripts run in another Lua, without the shebang line and its flags. They may use keys that they did not
//     declare. string.format takes no text in place of a number: use tonumber.
//   - An error inside a script, as from redis.call, arrives as a generic script error with the original text
//     inside, so its code is hidden. An error that the script returns, as from redis.error_reply, keeps its
//     code.
//   - A connection that sent SUBSCRIBE accepts only pub/sub commands, even with RESP3. A connection that sent
//     SSUBSCRIBE accepts all commands, even with RESP2.
//   - WATCH misses some changes of a key: a field that leaves a hash with other fields, a member that leaves
//     a sorted set, and a TTL from GETEX.
//   - If an int has 32 bits, as on GOARCH=386 and arm, scripts count and reply whole integers with INCR,
//     INCRBY, DECR and DECRBY. All other commands know only 32 bits, so the server refuses a TTL of more than
//     24 days.
//   - The time of a command grows with the number of keys. From some thousands of keys on, tests get slow.
package rlocktest
