// Package rlock takes, holds, extends, checks and releases locks on Redis and Valkey, through rueidis.
//
//	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	…
//	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lock *rlock.Lock) error {
//		return write(ctx, lock.Fence())
//	})
//
// Do is what most programs need, and TryDo for work that only one of several processes does. Acquire,
// Lock.Extend and Lock.Release are the parts that they are made of. Take locks with one Locker for each
// process.
//
// A lock is a plain string key whose value is the owner's token: a UUID and, behind a space, the text of
// WithOwner. So a key excludes with every other library that uses SET NX PX on it. It is advisory: it keeps
// out those who ask for it. Its token is no secret to anybody who may read the key.
//
// While one Redis primary keeps its data, its clock does not jump, and nobody but its holder changes a key,
// no two holders of it are valid at the same time, whatever the network does. A failover can lose a lock,
// and a process can be paused between looking at Err and acting: a resource that must not suffer from it
// refuses numbers of Lock.Fence that are smaller than the largest it has seen. Beside this package,
// docs/GUARANTEES.md has each promise, what breaks it, what one sees then, and what to do; docs/CLIENT.md the
// options of the client; and docs/ARCHITECTURE.md which script does what.
//
// # Waiting
//
// Whoever waits for a key gets it first come, first served: the callers of one Locker among each other, and
// Lockers, each of which counts as a process, among each other. Only the first of the callers asks the
// server.
//
// Release hands the lock over to the next caller of this process as long as its turn lasts (see WithTurn),
// most often without a command. After that one command passes it to the process that has waited longest, and
// a message tells that process. So the key is never free in between, and nobody else can take it. A message
// that is lost costs a second, and a holder that dies the rest of its lease.
//
// TryAcquire joins no queue, and overtakes nobody who waits in one. Callers poll where the user lacks the
// rights for the queue (see WithQueue), and for a key of a cluster while its slot moves.
//
// # Sharing
//
// AcquireShared takes a lock for a reader, of whom any number may hold it together. AcquirePermits takes
// some of a limited number of permits. Both wait in the same queues, so whoever waits for the whole lock
// stops readers who come later. Lock.Readers is for a script that writes only while readers share a lock.
//
// # Leaders, and jobs of a period
//
// Of all processes that call Lead with a key, one at a time is the leader, and runs its function. When it
// dies or resigns, the next takes over. Leaders yields who leads. WithMinHold keeps a job that several
// machines start at about the same time from running more than once.
//
// # Stopping
//
// Shutdown is for a process that is to stop: contexts end, functions finish, and all locks are freed at
// once. Close ends the Locker and leaves its locks to their leases. WithStopBefore ends a context some time
// before others may hold the lock, for work that cannot stop at once, and WithMaxHold ends a lock that is
// held for too long.
//
// # Going on in another process
//
// Lock.Detach ends a handle and leaves the lock, and Locker.Attach goes on with it, most often in another
// process: an upload that one server begins and another ends. The Handoff that goes from the one to the other
// is as good as the lock, so keep it as you would keep a password.
//
// # Deadlocks
//
// Locks are not re-entrant. A holder that waits for its own key gets ErrAlreadyHeld if it waits with the
// context of Do or of Lock.Context, and otherwise until its context or its own lease ends. Two callers who
// take the same two keys one after the other, in opposite orders, wait for each other. Take both with
// AcquireAll, which is safe in any order.
//
// # Asking
//
// Lock.Err tells at no cost whether a lock is still held, as far as this process knows. Lock.Verify asks the
// server. Locker.Check tells who holds any lock, from the client-side cache. Package rlockadmin lists all
// locks, with those who share them and those who wait, and frees what a dead process has left.
//
// # Seeing what happens
//
// Locker.Stats counts what the locks of a Locker do, and an Observer (see WithObserver) is told of each step
// of each lock; SlogObserver is one that logs. The modules rlockprom and rlockotel show both to Prometheus
// and OpenTelemetry. None of them ever has a token, and no text that packages fmt and log/slog make of a
// Lock or a State has one.
//
// # Errors
//
// Errors match the variables below with errors.Is, and carry facts for errors.As. ErrNoAnswer tells an
// outage from a lock that others hold, for every call. A FailureReason is the same as one word for each
// failure.
//
// Errors of the server (NOPERM, OOM, WRONGTYPE …) end an operation at once, say what to do about them, and
// stay reachable as *rueidis.RedisError. Calls that wait go on through those that pass: LOADING,
// CLUSTERDOWN, MASTERDOWN and TRYAGAIN, and READONLY with a client of Sentinel or of a cluster, which finds
// the next primary. If no answer comes, rlock repeats the command: twice, or for 2 seconds if a lock depends
// on it (Extend and Release), or for as long as the caller waits anyway. Every script is safe to repeat with
// the same token. In a silent network, a call whose context has no deadline ends with the client's own
// time-outs: some 20 seconds. Check asks until its context ends, so give it a deadline.
package rlock
