// Package rlocktest runs a Redis server inside the test or demo program that
// needs one, so nothing has to be installed, started or cleaned up.
//
// It is miniredis with four differences:
//
//   - TTLs run down in real time, and TIME moves. As in Redis, no key expires while a
//     script runs.
//   - Client-side caching works: CLIENT TRACKING and CLIENT CACHING are
//     understood, and invalidations are pushed to RESP3 connections. A rueidis
//     client with default options can use DoCache against it.
//   - Keys that expire are announced to the clients that cached them within
//     some 20 milliseconds, though nobody touches them.
//   - Sharded channels work: SSUBSCRIBE, SUNSUBSCRIBE, SPUBLISH and PUBSUB SHARDNUMSUB, the
//     last two in scripts too. They are refused inside MULTI, and in scripts once
//     [miniredis.Miniredis.SetError] was used.
//
// One line in a test is enough, after go get github.com/rlock-go/toolkit/rlock/rlocktest@main:
//
//	client := rlocktest.Client(t)
//
// # Client-side caching
//
// As in Redis, keys are tracked by name, whatever database they are in, and an
// invalidation is sent once for each time the key was read. OPTIN, OPTOUT,
// BCAST, PREFIX and NOLOOP are supported, REDIRECT is not. A command that
// changed nothing, such as SET NX on a key that exists, announces nothing, also
// inside a script. What is not exact announces too much, never too little:
//
//   - A script counts as having read all the keys it was given.
//   - A write inside MULTI always counts as a change, as does a write for
//     which the reply does not say.
//   - Changes made by a script are seen command by command until
//     [miniredis.Miniredis.SetError] was used; from then on a script counts as
//     having changed all the keys it was given, and only those.
//   - While a connection waits in a blocking command, its invalidations wait
//     too.
//
// Two kinds of change are not announced: those made by calling methods of
// [Server.Redis] that write, and a hash field that expires by itself.
// CLIENT TRACKING and CLIENT CACHING are refused inside MULTI.
//
// # Failures
//
// A test can have the server fail in the ways that locks must cope with:
//
//   - [Server.FailNext]: the next command that matches is refused with an error.
//   - [Server.LoseReply]: it runs, and its connection breaks before the answer.
//   - [Server.Silence]: the network swallows everything until that is lifted.
//   - [Server.Delay]: each answer takes longer.
//   - [Server.Stop] and [Server.Restart]: a crash, with or without the data.
//   - [Server.Take], [Server.Free] and [Server.Shorten]: a stranger takes, deletes or
//     shortens a lock, whoever holds it.
//
// Each of them does to a lock what a real server behind a broken network does: the
// tests of this module run the same failures against both.
//
// # Time
//
// A test of leases need not wait for them. [StartInMemory] returns a server without a
// listener, which can be in a bubble of [testing/synctest] together with its clients and
// locks. All of them have the bubble's clock then, and [Server.Advance] moves it: keys expire
// at the server, leases end or are renewed, and who waits for a lock gets it, before
// Advance returns. Each Locker that the test opens stands for a process of its own.
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
// One that is renewed, until nobody can:
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
// A job of every hour that several machines start, whose clocks differ:
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
// Time also moves on by itself when every goroutine of the bubble waits, so a test may
// as well wait for what shall happen: <-lock.Context().Done().
//
// What there is to know:
//
//   - The server, the Lockers and their clients are made inside the bubble and closed inside it, as
//     Cleanup of the bubble's t does. One that is from outside has another clock.
//   - A bubble ends with its test, so wait for what other goroutines do last, such as a Release.
//   - All goroutines of the bubble must wait for something of the bubble. One that waits for a real
//     network, a process or a mutex keeps the time from moving on, and the test hangs.
//   - FastForward of [Server.Redis] moves the server alone, and no Locker. That is how a server
//     behaves whose clock jumps.
//   - With a server that listens, time is that of the machine. There, [Server.Shorten] and
//     [Server.Free] end the lease of a lock at once.
//   - A lock that is renewed or waited for costs some work for each second that passes: an hour
//     takes one to three seconds of the machine's time.
//
// # What it does not do
//
// This is not Redis, and a test that passes here can still fail there:
//
//   - It is a single node with cluster support disabled. It accepts commands
//     and scripts over keys of different slots, which a cluster does not.
//   - Scripts run in another Lua, without the shebang line and its flags. They
//     may use keys they did not declare. string.format takes no text in a number's
//     place: use tonumber.
//   - An error raised inside a script, as by redis.call, arrives as a generic
//     script error with the original text inside it, so its code is masked. An
//     error the script returns, as redis.error_reply does, keeps its code.
//   - A connection that sent SUBSCRIBE accepts nothing but pub/sub commands, even
//     with RESP3; one that sent SSUBSCRIBE accepts all commands, even with RESP2.
//   - With a WATCH on it, some changes to a key go unnoticed: a field taken out
//     of a hash that keeps others, a member out of a sorted set, a TTL set by
//     GETEX.
//   - Where an int has 32 bits, as on GOARCH=386 and arm, scripts count and reply
//     whole integers with INCR, INCRBY, DECR and DECRBY; all other commands know 32
//     bits only, so a TTL of more than 24 days is refused.
//   - Every command costs time that grows with the number of keys, which is
//     felt from some thousands of keys on.
package rlocktest
