// Package rlock takes, holds, extends, checks and releases locks on Redis,
// through rueidis.
//
//	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	…
//	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lock *rlock.Lock) error {
//		return write(ctx, lock.Fence())
//	})
//
// A lock is a plain string key whose value is the owner's token (a UUID and, behind a
// space, the text of WithOwner if there is one), so a key is
// mutually exclusive with every other library that uses SET NX PX. Whatever takes,
// extends or frees a lock is a script of this module, which the server runs byte for byte;
// package gen has the calls. The other commands only read: GET for a check from the cache,
// as the generator has proved that its script does nothing else, and CLIENT CACHING with
// MGET for the keys of held locks, where the server tells of changes. Probe also asks the
// server about itself, and gives its own scratch key a lease.
//
// While one Redis primary keeps its data and its clock does not jump, no two holders of
// a key are valid at the same time, whatever the network and the server do. A failover
// can lose a lock, and a process can be paused between checking Valid and acting: a
// resource that must not suffer from it refuses Lock.Fence numbers that are smaller than
// the largest it has seen. "Guarantees" below has the whole of it, with the tests that
// show it.
//
// A lock is advisory: it keeps out those who ask for it. Its token is no secret
// to anybody who may read the key.
//
// # Waiting
//
// The callers of one Locker who Acquire the same key wait in one queue, first come, first
// served. Only the first of them asks the server; the others send nothing, unless their
// retry policy gives up: then they ask once before they do. Where the
// server tells the Locker of changed keys (see Invalidations, which Open installs), the
// first caller sends nothing until the key changes. Elsewhere it polls. Either way it
// tries again when the holder's lease ends. Sets, calls that do not wait and calls
// WithToken stand in no queue: each asks the server itself.
//
// Release hands the lock over to the next caller in the queue, so that the key is never
// free in between. This takes no command if enough of the lease is left for the next
// holder (see WithTTL), and one command if not. When the turn of this process is over (see
// WithTurn), Release frees the key and lets other processes go first, so that processes
// that want a key have it about equally often.
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
// and logs; SlogObserver is one that logs. Neither ever has a token, nor has what
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
