// Package rlock takes, holds, extends, checks and releases locks on Redis and Valkey, through rueidis.
//
//	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	…
//	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lock *rlock.Lock) error {
//		return write(ctx, lock.Fence())
//	})
//
// Most programs need only Do. TryDo is for work that only one of several processes does. Acquire, Lock.Extend
// and Lock.Release are the parts of Do. A process needs one Locker for all its locks.
//
// A lock is a string key. Its value is the token of the owner: a UUID, then a blank and the text of WithOwner
// if there is one. So the lock excludes every other library that uses SET NX PX on the same key. The lock is
// advisory: it keeps out only callers that ask for it. Everybody who may read the key can read the token.
//
// No two holders of a key are valid at the same time, whatever the network does. The promise holds on these
// conditions: one Redis primary keeps its data, its clock does not jump, no machine of a holder is suspended,
// and only the holder changes the key. A failover can lose a lock. A process can pause after it has looked at
// Err and before it acts. If neither may harm a resource, let the resource refuse each Lock.Fence that is
// smaller than the largest it has seen.
//
//   - docs/GUARANTEES.md has each promise, what breaks it, and what to do then.
//   - docs/CLIENT.md has the options of the client.
//   - docs/ARCHITECTURE.md says which script does what.
//
// # Waiting
//
// Waiters get a key first come, first served. The callers of one Locker form a line, and only the first of
// them asks the server. The server keeps a queue of Lockers. Each Locker counts as a process.
//
// Release hands the lock over to the next caller of its process while the turn lasts (see WithTurn). Most
// hand-overs need no command. After the turn, one command gives the lock to the process that has waited
// longest, and a message tells that process. The key is never free in between, so no other caller can take
// it. A lost message costs a second. A holder that dies costs the rest of its lease.
//
// TryAcquire joins no queue and overtakes no waiter. Callers poll if the user lacks the rights for the queue
// (see WithQueue), and while the slot of the key moves to another node.
//
// # Sharing
//
// AcquireShared takes a lock for a reader. Any number of readers hold the lock together. AcquirePermits takes
// some of a limited number of permits. Both wait in the same queue as Acquire, so a waiter for the whole lock
// stops later readers. Lock.Readers is for a Redis script that checks, before it writes, that readers still
// share the lock.
//
// # Leaders, and jobs of a period
//
// Lead makes the process a candidate for the lock of a key. One candidate at a time is the leader and runs
// its function. When the leader dies or resigns, the next candidate takes over. Leaders yields the present
// leader. WithMinHold is for a job that several machines start at about the same time: the job runs once.
//
// # Stopping
//
//   - Shutdown is for a process that stops. Contexts end, functions finish, and the server frees all locks.
//   - Close ends the Locker at once, and leaves its locks to their leases.
//   - WithStopBefore ends a context some time before the lease ends, for work that needs time to stop.
//   - WithMaxHold ends a lock that a holder keeps for too long.
//
// # Going on in another process
//
// Lock.Detach ends a handle and keeps the lock. Locker.Attach goes on with the lock, in this process or
// another: one process begins an upload, and another process ends it.
// The Handoff that one process sends to the
// other gives full power over the lock. Keep it like a password.
//
// # Deadlocks
//
// Locks are not re-entrant. A holder that waits for its own key with the context of Do or of Lock.Context
// gets ErrAlreadyHeld. With another context the holder waits until that context or its own lease ends. Two
// callers who take two keys one by one, in opposite orders, wait for each other. AcquireAll takes both keys,
// in any order, without a deadlock.
//
// # Asking
//
//   - Lock.Err says, at no cost, whether the process still holds the lock as far as it knows.
//   - Lock.Verify asks the server.
//   - Locker.Check says who holds any lock, from the client-side cache.
//   - Package rlockadmin lists locks, sharers and waiters, and frees what a dead process has left.
//
// # Seeing what happens
//
// Locker.Stats counts what the locks of a Locker do. An Observer (see WithObserver) gets each event of each
// lock, and SlogObserver logs the events. The modules rlockprom and rlockotel export both to Prometheus and
// OpenTelemetry. No event, count or log line has a token. Packages fmt and log/slog print a Lock and a State
// without the token.
//
// # Errors
//
// Errors match the variables below with errors.Is, and carry facts for errors.As. ErrNoAnswer tells an outage
// from a lock that another holder has, for every call. A FailureReason names each failure in one word.
//
// An error of the server (NOPERM, OOM, WRONGTYPE …) ends an operation at once. Its text says what to do, and
// errors.As finds the *rueidis.RedisError. Some errors are temporary: LOADING, CLUSTERDOWN, MASTERDOWN and
// TRYAGAIN. READONLY is temporary with a client of Sentinel or of a cluster, because this client finds the
// next primary. Calls that wait do not end with a temporary error.
//
// If no answer comes, rlock repeats the command. It repeats twice by default, for 2 seconds in Extend and
// Release, and until the end of the wait in calls that wait. Every script is safe to repeat with the same
// token. In a silent network, a call without a deadline ends with the time-outs of the client, after some 20
// seconds. Check asks until its context ends, so give Check a deadline.
package rlock
