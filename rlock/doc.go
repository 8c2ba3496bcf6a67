// Package rlock takes, holds, extends, checks and releases locks on Redis,
// through rueidis.
//
//	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	…
//	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lock *rlock.Lock) error {
//		return write(ctx, lock.Fence())
//	})
//
// A lock is a plain string key whose value is the owner's token, so a key is
// mutually exclusive with every other library that uses SET NX PX. What runs on
// the server are the scripts of this module, byte for byte; package gen has the
// calls.
//
// # What is promised
//
// While one Redis primary keeps its data and its clock does not jump, no two
// holders of a key are valid at the same time: Lock.Valid is false, and
// Lock.Context has ended, before the server lets another token in, whatever the
// network and the server do. The lease is counted on the local monotonic clock
// from before the command was sent; no clock of a client is ever sent.
//
// A holder that dies blocks others for no longer than its lease. An acquisition
// that fails, for whatever reason, leaves no lock behind, or one that is being
// released in the background where a reply was lost.
//
// # What is not promised
//
// Redis replicates asynchronously: a failover, a flush, an eviction or a restart
// without persistence can lose a lock that was granted, and its key can then be
// taken by another. A process can be paused between checking Valid and acting.
// Nothing that a lock service does can prevent either; the resource itself can,
// if it remembers the largest Lock.Fence it has seen and refuses smaller ones:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// Fences of a key are strictly increasing while the server keeps its data or,
// failing that, its clock.
//
// A lock is advisory: it keeps out those who ask for it. Its token is no secret
// to anybody who may read the key.
//
// # Waiting
//
// Acquisitions of one key by one Locker stand in one line, first come, first served.
// Only the first of them asks the server; the others send nothing. With a Hook, as
// Open installs it, the first is told when the key changes and sends nothing until
// then; otherwise it polls, backing off. It looks again when the holder's lease ends
// in any case.
//
// Release passes the lock on to the next in line, so that the key is never free in
// between: with one command where leases are fixed, with none where both are extended
// automatically. After a turn (see WithTurn) the key is freed, and this process lets
// others go first: processes that want a key have it about equally often.
//
// # Deadlocks
//
// Waiting for a key that the context's own lock holds would never end: it fails with
// ErrAlreadyHeld, if the context is that of Do or of Lock.Context. Two callers who
// take the same two keys one after the other in opposite orders can wait for each
// other until a lease ends; nobody notices. Take both with AcquireAll, in any order.
//
// # Seeing what happens
//
// Locker.Stats counts what the locks of a Locker do, at no cost worth measuring. An
// Observer (see WithObserver) is told of each step of each lock, for metrics, traces
// and logs; SlogObserver is one that logs. Neither ever has a token.
//
// # Errors
//
// Errors match sentinels with errors.Is and carry facts for errors.As; see the
// variables and types below. Errors of the server (NOPERM, READONLY, OOM,
// WRONGTYPE …) end an operation at once and stay reachable as
// *rueidis.RedisError. Where no answer comes, the question is asked again: twice, or
// for 2 seconds if a lock depends on it (Extend and Release), or for as long as the
// caller waits for the lock anyway; every script is safe to repeat with the same token.
// No error text has a token in it.
package rlock
