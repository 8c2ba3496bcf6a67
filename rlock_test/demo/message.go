package main

import "time"

// order is what the demo tells a worker, as a line of JSON on its standard input. A
// worker ends when there are no more.
type order struct {
	Do    action
	Keys  []string      // whose lock, or locks
	TTL   time.Duration // of the lock
	Count int           // of transfers
	Text  string        // to write
}

type action string

const (
	doTransfers action = "transfers" // move money Count times
	doAcquire   action = "acquire"   // and hold, extended while the worker lives
	doBorrow    action = "borrow"    // acquire with a fixed lease
	doWrite     action = "write"     // Text, under the lock acquired last, if it is held or not
	doRelease   action = "release"
)

// event is what a worker says, as a line of JSON on its standard output.
type event struct {
	By     string // the process, as the demo has it
	Kind   kind
	At     time.Time
	Key    string
	Token  string // of the lock
	Fence  uint64
	From   string
	To     string
	Move   transferred
	Waited bool   // the lock was another's at first
	Cause  string // why a lock ended
	Lost   bool   // and whether that is ErrLost
	Held   string // how the write that is guarded by "held by" was refused; empty: it was not
	Fenced string // how the write that is guarded by "fenced by" was refused
}

type kind string

const (
	isReady       kind = "ready"
	isTransferred kind = "transferred"
	isDone        kind = "done"     // with the transfers
	isWaiting     kind = "waiting"  // for a lock that is another's
	isAcquired    kind = "acquired" // a lock
	isEnded       kind = "ended"    // a lock, that was not released
	isWritten     kind = "written"  // or refused
	isReleased    kind = "released" // a lock
	isFailed      kind = "failed"   // the worker gives up, for Cause
)
