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
// mutually exclusive with every other library that uses SET NX PX. What runs on
// the server are the scripts of this module, byte for byte; package gen has the
// calls. One command is sent in a script's place: GET for a check from the cache, as the
// generator has proved that the script does nothing else.
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
// Acquisitions of one key by one Locker stand in one line, first come, first served.
// Only the first of them asks the server; the others send nothing. With Invalidations, as
// Open installs it, the first is told when the key changes and sends nothing until
// then; otherwise it polls, backing off. It looks again when the holder's lease ends
// in any case.
//
// Release passes the lock on to the next in line, so that the key is never free in
// between: with no command where the lease will do for the next holder too (see
// WithTTL), with one where not. After a turn (see WithTurn) the key is freed, and this
// process lets others go first: processes that want a key have it about equally often.
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
// and logs; SlogObserver is one that logs. Neither ever has a token, nor has what
// packages fmt and log/slog make of a Lock or a State.
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
