package main

import "time"

// order is what the demo tells a worker, as a line of JSON on the worker's standard input. When the orders
// end, the worker ends.
type order struct {
	Do    action
	Keys  []string      // to lock
	TTL   time.Duration // of the lock
	Count int           // of transfers
	Text  string        // to write
}

type action string

const (
	doTransfers action = "transfers" // move money Count times
	doAcquire   action = "acquire"   // and hold, extended while the worker lives
	doBorrow    action = "borrow"    // acquire with a fixed lease
	doWrite     action = "write"     // Text, under the last lock, held or lost
	doRelease   action = "release"
)

// event is what a worker reports, as a line of JSON on its standard output.
type event struct {
	By     string // the name that the demo gives the process
	Kind   kind
	At     time.Time
	Key    string
	Token  string // of the lock
	Fence  uint64
	From   string
	To     string
	Move   transferred
	Waited bool   // another worker held the lock at first
	Cause  string // why a lock ended
	Lost   bool   // whether Cause is ErrLost
	Held   string // how the server refused the "held by" write; empty: it did not
	Fenced string // how the server refused the "fenced by" write; empty: it did not
}

type kind string

const (
	isReady       kind = "ready"
	isTransferred kind = "transferred"
	isDone        kind = "done"     // with the transfers
	isWaiting     kind = "waiting"  // for a lock that another worker holds
	isAcquired    kind = "acquired" // a lock
	isEnded       kind = "ended"    // a lock ended without a release
	isWritten     kind = "written"  // or the server refused the write
	isReleased    kind = "released" // a lock
	isFailed      kind = "failed"   // the worker gives up, for Cause
)
