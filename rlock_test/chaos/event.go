package chaos

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// kind is what an event tells about.
type kind string

const (
	asking   kind = "asking"   // an acquisition begins
	acquired kind = "acquired" // an acquisition has ended, with a lock or without
	extended kind = "extended" // an extension has ended
	checked  kind = "checked"  // Lock.Verify has ended
	ending   kind = "ending"   // a holder stops using its lock, before its release if there is one
	released kind = "released" // a release has ended
	wrote    kind = "wrote"    // a holder has written to the fenced resource
	looked   kind = "looked"   // Locker.Check or Inspect has ended
	reached  kind = "reached"  // after the faults: a locker has had a key, or could not get it
	opened   kind = "opened"   // a process begins to work
	stopped  kind = "stopped"  // a process has stopped working
	settled  kind = "settled"  // after the faults: a process has had all keys
	closed   kind = "closed"   // a process has closed its lockers
)

// outcome is how an operation ended.
type outcome string

const (
	done      outcome = "done"
	held      outcome = "held"      // rlock.ErrHeld, at once
	gaveUp    outcome = "gave up"   // the context ended
	lost      outcome = "lost"      // rlock.ErrLost
	notHeld   outcome = "not held"  // rlock.ErrNotHeld of another kind
	failed    outcome = "failed"    // any other error: the effect is unknown
	abandoned outcome = "abandoned" // of ending: the holder does not release
)

// event is one line that a process writes. Its instants are readings of the machine's clock.
type event struct {
	Process int    `json:"process,omitempty"` // the reader fills it in
	Kind    kind   `json:"kind"`
	Method  string `json:"method,omitempty"` // the name in the report
	Lock    int    `json:"lock,omitempty"`   // number of the acquisition within its process

	Keys    []string `json:"keys,omitempty"`
	Call    instant  `json:"call,omitempty"`
	Return  instant  `json:"return,omitempty"`
	Outcome outcome  `json:"outcome,omitempty"`
	Error   string   `json:"error,omitempty"`

	Share share `json:"share,omitzero"` // of asking and acquired: the wanted share

	Fence    uint64        `json:"fence,omitempty"`
	TTL      time.Duration `json:"ttl,omitempty"`      // longest lease asked for until now
	Deadline instant       `json:"deadline,omitempty"` // of the lease, as the holder knows it at Return
	// of ending: the last instant at which the holder saw the lock valid
	Until instant `json:"until,omitempty"`

	Accepted bool `json:"accepted,omitempty"` // of wrote: the resource accepted the write
	Valid    bool `json:"valid,omitempty"`    // of wrote: the lock was valid before and after

	HandedOver uint64 `json:"handedOver,omitempty"` // of closed: locks that went straight to the next holder
}

// recorder writes the events of all goroutines of a process. The reader has a line when record
// returns, so a killed process has told all that it knew.
type recorder struct {
	mu  sync.Mutex
	out *json.Encoder
}

func newRecorder(w io.Writer) *recorder { return &recorder{out: json.NewEncoder(w)} }

func (r *recorder) record(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Encode(e); err != nil {
		panic(err) // the reader is gone, so the process has no purpose
	}
}
