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
// A lock is a plain string key whose value is the owner's token (a UUID and, behind a space, the text
// of WithOwner if there is one), so a key is mutually exclusive with every other library that uses SET
// NX PX on the same key. It is advisory: it keeps out those who ask for it. Its token is no secret to
// anybody who may read the key.
//
// While one Redis primary keeps its data, its clock does not jump, and nobody but its holder changes a
// key, no two holders of it are valid at the same time, whatever the network does. A failover can lose a
// lock, and a process can be paused between checking Valid and acting: a resource that must not suffer
// from it refuses numbers of Lock.Fence that are smaller than the largest it has seen. Beside this package,
// GUARANTEES.md has every guarantee with the tests that show it and what is not guaranteed, FAILURES.md
// what users see when something fails, CLIENT.md what the options of the client mean for locks, and
// ARCHITECTURE.md which script does what.
//
// # Waiting
//
// Whoever waits for a key gets it first come, first served: the callers of one Locker among each other,
// and Lockers, each of which counts as a process, among each other. Only the first of the callers asks
// the server.
//
// Release hands the lock over to the next caller of this process as long as the turn of the process
// lasts (see WithTurn), most often without a command. After that, and when nobody of this process
// waits, one command passes the lock to the process that has waited longest, and a message tells that
// process. So the key is never free in between, and nobody else can take it. If the message is lost,
// the process finds the grant with its next heartbeat, about every half second. If a holder dies, the
// first in the queue asks as soon as the lease is over.
//
// TryAcquire joins no queue, and overtakes nobody who waits in one. A call WithToken waits at the
// server, but not among the callers of its Locker. A set waits as AcquireAll says, and its Release
// passes each key on, but frees those of a set of more than 128, which uses no queues; see GUARANTEES.md.
//
// A Locker whose user lacks the rights for the queue polls (see WithQueue), and so it is with a key of a
// cluster while its slot moves. A process then frees the key when its turn ends. The first of each tries when
// the server tells that the key has changed (see Invalidations) or, where it cannot, polls, and in each
// case when the holder's lease ends.
//
// # Sharing
//
// AcquireShared takes a lock for a reader, of whom any number may hold it together. AcquirePermits takes
// one or more of a limited number of permits. Both wait in the same queues, so whoever waits for the
// whole lock stops readers who come later.
//
// # Leaders, and jobs of a period
//
// Of all processes that call Lead with a key, one at a time is the leader, and runs its function. When
// it dies or resigns, the next takes over. Leaders yields who leads. WithMinHold keeps a job that
// several machines start at about the same time from running more than once.
//
// # Stopping
//
// Shutdown is for a process that is to stop: contexts end, functions finish, and all locks are freed at once.
// Close ends the Locker and leaves its locks to their leases. WithStopBefore ends a context some time before
// others may hold the lock, for work that cannot stop at once, and WithMaxHold ends a lock that is held for
// too long.
//
// # Deadlocks
//
// Locks are not re-entrant. A holder that waits for its own key gets ErrAlreadyHeld if it waits with
// the context of Do or of Lock.Context, and otherwise until its context or its own lease ends. Two callers who
// take the same two keys one after the other, in opposite orders, wait for each other until a lease or a context ends.
// Take both with AcquireAll, which is safe in any order.
//
// # Seeing what happens
//
// Locker.Stats counts what the locks of a Locker do, at no cost worth measuring. An Observer (see
// WithObserver) is told of each step of each lock; SlogObserver is one that logs. The modules rlockprom
// and rlockotel below this package show both to Prometheus and OpenTelemetry. None of them ever has a
// token, and no text that packages fmt and log/slog make of a Lock or a State has one (see State.Token).
//
// # Errors
//
// Errors match the variables below with errors.Is, and carry facts for errors.As. Errors of the server
// (NOPERM, OOM, WRONGTYPE …) end an operation at once, say what to do about them, and stay reachable as
// *rueidis.RedisError. Acquire waits out those that pass: LOADING, CLUSTERDOWN, MASTERDOWN and TRYAGAIN, and
// READONLY with a client of Sentinel or of a cluster, which finds the next primary.
// If no answer comes, rlock repeats the command: twice, or for 2 seconds if a lock depends on it (Extend and
// Release), or for as long as the caller waits anyway. Every script is safe to repeat with the same token. In
// a silent network, a call whose context has no deadline ends with the client's own time-outs: some 20 seconds.
// Check asks until its context ends, so give it a deadline. No error text has a token in it.
//
// ErrNoAnswer tells an outage from a lock that others hold, for every call. A FailureReason is the same as
// one word for each failure, which Stats, SlogObserver and both modules show.
package rlock
