// Package rlock takes, holds, extends, checks and releases locks on Redis,
// through rueidis.
//
//	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	…
//	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lock *rlock.Lock) error {
//		return write(ctx, lock.Fence())
//	})
//
// A lock is a plain string key whose value is the owner's token (a UUID and, behind a space, the
// text of WithOwner if there is one), so a key is mutually exclusive with every other library
// that uses SET NX PX on the same key. Whatever takes, extends or frees a lock is a script of
// this module, which the server runs byte for byte; package gen has the calls. The other
// commands only read or listen: GET for a check from the cache, as the generator has proved
// that its script does nothing else; CLIENT CACHING with MGET for the keys of held locks, where
// the server tells of changes; and SSUBSCRIBE, for grants to those who wait. Probe also asks the
// server about itself, and gives its own scratch key a lease.
//
// While one Redis primary keeps its data and its clock does not jump, no two holders of
// a key are valid at the same time, whatever the network and the server do. A failover
// can lose a lock, and a process can be paused between checking Valid and acting: a
// resource that must not suffer from it refuses Lock.Fence numbers that are smaller than
// the largest it has seen. GUARANTEES.md, beside this package, has every guarantee with the
// tests that show it, what is not guaranteed, and how a resource compares fences in SQL and in
// Redis. FAILURES.md tells what users see when something fails.
//
// A lock is advisory: it keeps out those who ask for it. Its token is no secret
// to anybody who may read the key.
//
// # Waiting
//
// The callers of one Locker who Acquire the same key wait in one queue, first come, first
// served. Only the first of them asks the server; the others send nothing, unless their retry
// policy gives up: then they ask once before they do.
//
// For each key that somebody waits for, the server keeps a queue of processes, first come, first
// served. A Locker counts as a process. When Release passes the key on, one script grants it to
// the process that waits first and tells that process with a message, which comes to the Locker
// on a connection of its own; on a cluster, on one for each node that has keys for which the Locker
// waits. So the key is never free in between, and nobody else tries to take
// it. A process that waits sends a heartbeat about every half second, or every quarter of a lease
// that is shorter than two seconds; behind others it sends fewer. A heartbeat keeps the place and
// finds a grant whose message was lost. If a holder dies, the first in the queue asks as soon as
// the lease is over.
//
// Release hands the lock over to the next caller of this process as long as the turn of this
// process lasts (see WithTurn). After that, and when nobody of this process waits, one command passes
// the lock to the process that has waited longest, or frees the key if none waits. A hand-over takes
// no command if enough of the lease is left for the next holder (see WithTTL), and one command if
// not. If the lock was lost since the server confirmed that lease, the next holder has to notice.
//
// TryAcquire joins no queue, and overtakes nobody who waits in one. A call WithToken waits in the
// queue of the server with another token, and not among the callers of its Locker; when it is
// granted the lock, one command gives the lock to the chosen token. A set waits as AcquireAll
// says, and its Release frees the keys: the first in the queue of each then asks for it.
//
// There is no queue between processes for a user who lacks the rights for it, and on a cluster for a
// key whose slot moves just then. Release then frees the key. Where the server tells the Locker of changed keys (see
// Invalidations, which Open installs), the first caller tries when the key has changed.
// Elsewhere it polls. Either way it tries when the holder's lease ends.
//
// # Sharing
//
// AcquireShared takes a lock for a reader, of whom any number may hold it together, and
// AcquirePermit takes one or more of a limited number of permits. Both wait in the same queues, so
// whoever waits for the whole lock stops readers who come later. The key is that of a held lock
// to everybody else, and the set rlock:holders:{…}:<key> beside it has the leases of those who
// share it, by the clock of the server. See AcquireShared.
//
// # Leaders, and jobs of a period
//
// Of all processes that call Lead with a key, one at a time is the leader, and runs its function. When
// it dies or resigns, the next takes over. Leaders yields who leads. WithAtLeast keeps a job that several
// machines start at about the same time from running more than once.
//
// # Deadlocks
//
// A holder that waits for its own key would wait for ever. If the context is that of Do or
// of Lock.Context, the acquisition fails with ErrAlreadyHeld instead. Two callers who take
// the same two keys one after the other, in opposite orders, wait for each other until a
// lease or a context ends, and rlock does not notice. Take both keys with AcquireAll, which
// is safe in any order.
//
// # Seeing what happens
//
// Locker.Stats counts what the locks of a Locker do, at no cost worth measuring. An
// Observer (see WithObserver) is told of each step of each lock, for metrics, traces
// and logs; SlogObserver is one that logs. The modules rlockprom and rlockotel below this package
// show both to Prometheus and OpenTelemetry. Neither ever has a token, nor has what
// packages fmt and log/slog make of a Lock or a State.
//
// # Errors
//
// Errors match sentinels with errors.Is and carry facts for errors.As; see the
// variables and types below. Errors of the server (NOPERM, READONLY, OOM,
// WRONGTYPE …) end an operation at once and stay reachable as
// *rueidis.RedisError. If no answer comes, rlock repeats the command: twice, or for 2
// seconds if a lock depends on it (Extend and Release), or for as long as the caller waits
// for the lock anyway. Every script is safe to repeat with the same token.
// No error text has a token in it.
package rlock
