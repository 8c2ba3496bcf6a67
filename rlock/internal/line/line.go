// Package line decides, for the callers of one process, who asks the server for a key, who waits, and who
// goes on with a lease that another caller has given up. Whole locks, readers and permits have the same two
// rules:
//
//	serve  a lease that nobody uses any more goes to the first who waits, or back to the server.
//	stand  while some wait, as many of them ask the server as can use what it gives. The others send nothing.
//
// A Line is a value that Step alone changes. It asks no server, reads no clock, starts nothing, and knows no
// token. Lines has the lines of all keys, each under
// the mutex of its shard.
package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Mode is what a key is taken as.
type Mode uint8

// The modes. They differ in how many callers have a lease, and in how many leases a line may have.
const (
	Whole   Mode = iota // one caller has the only lease
	Readers             // those who come within a turn have one lease together
	Permits             // each caller has a lease of its own, and there are several
)

// Kind is what the callers of one Line have in common. For a whole lock Enter needs the Key alone.
type Kind struct {
	Key     string
	Mode    Mode
	Limit   int // of Permits: how many there are
	Permits int // of Permits: how many each caller wants
	Owner   string
	TTL     time.Duration
	Extends bool
}

// most is how many callers can have permits at a time.
func (k *Kind) most() int { return max(k.Limit/max(k.Permits, 1), 1) }

// Want is what a caller wants of its lease.
type Want struct {
	TTL     time.Duration
	Owner   string // what the token is to say about the caller
	Extends bool   // the caller extends the lease anyway
	Fenced  bool   // it has a fence of its own
	Own     bool   // its token must be no other caller's
	Full    bool   // its lease must begin anew, with the whole TTL
	Slow    bool   // code of the user's runs each time before it waits
}

// Leased is a lease as a Line has it; nil: none. A Line calls its methods while a mutex is held.
type Leased interface {
	Part() *Lease            // always the same, and no other lease's
	Key() string             // the Key of its Kind
	Deadline() clock.Instant // when the lease is over at the latest
}

// Lease is the part of a lease that the Line knows. The mutex of its shard guards it. The zero Lease is in no
// line: a Handle of it does nothing.
type Lease struct {
	shard      *shard        // nil: it was never in a line
	line       *Line         // nil: nobody waits behind it, and nothing else is known of its key; Lines sets it
	until      clock.Instant // of Readers and Permits: when the turn is over in which others may have it
	silence    clock.Silence
	users      int32 // callers who have it, or are about to take it
	state      State
	open       bool // other readers may have it too
	stands     bool // of Permits, while it is asked for: it counts as standing in the queue of the server
	madeToWait bool // of Permits, while it is asked for: the server has made the caller wait
}

// State is where a lease is. Only Step changes it.
//
//	out ─Enter─▶ asked ─Granted─▶ live ─the last user is done─▶ back ─Ended─▶ out
//	             asked ─Failed─▶ out     live ─Ended─▶ out
//	live ─given to one who moves its key─▶ moving ─HandedOver, PassedOn─▶ out
//	             moving ─it is Done─▶ live, to be served anew
type State uint8

const (
	out    State = iota // in no line, or not any more
	asked               // a caller asks the server for it
	live                // it is granted
	moving              // its key goes to another lease, which alone says what has become of it
	back                // it is being given back
)

// Caller is one who waits in a line. The mutex of its shard guards it.
type Caller struct {
	shard *shard
	line  *Line
	want  Want
	own   Leased // that it asks for if it is called
	role  Role
	grant Grant

	next, prev *Caller
	signal     *clock.Signal // sent when the Role changes
	watches    bool          // see Watch
	awaits     bool          // it learns of another role at once: it is in Await, or not Slow
}

// Role is what a caller has to do.
type Role uint8

// The roles. A caller that Waits is told of another one.
const (
	Waits Role = iota
	Asks       // it asks the server for its own lease: Granted or Failed must follow
	Given      // it has Grant.Lease, and holds it, or is Done with it
	Gone       // it has left
)

// Grant is a lease that another caller has given up, or shares.
type Grant struct {
	Lease   Leased
	Do      Do
	Fence   uint64 // with GoOn: that of the caller, if it wants one
	Reserve int    // of HandOver and Ask: how many fences to take from the server
	Watch   bool   // others depend on its end being noticed
	Ask     uint32 // with GoOn: ask whether another process waits, and tell Heard this number; 0: do not
	Met     bool   // with PassOn: another process has been seen with the key
}

// Do is what the caller has to do with a lease that it is given.
type Do uint8

const (
	GoOn     Do = iota // hold it
	HandOver           // have the server give the key to its own lease: HandedOver or PassedOn follows
	PassOn             // have the server give the key to the process that waits first: PassedOn follows
)

// Line has those who wait for what one Kind is about, and the lease that is in their way.
type Line struct {
	*Kind
	key   string        // of Whole, whose Kind has none
	turns time.Duration // for how long this process keeps what others may wait for; see turn

	lease      Leased // Whole: the only one; Readers: the one that those who come wait for or share; nil: none
	asker      Leased // the last that was asked for
	head, tail *Caller
	watching   int // how many of those who wait watch
	leases     int // those that are asked for, live, or being given back
	asking     int // callers who ask
	standing   int // of those, how many stand in the queue of the server as far as is known, or are called
	places     int // how many should stand there while others wait here

	turn   turn
	number uint32        // of the last question, of any turn
	score  int64         // of a place in the queue of the server that a caller has left; 0: none
	other  clock.Instant // Whole: when the lease of another process ends that the asker waits for; 0: not known
	met    bool          // Whole: another process has been seen with the key
}

// What says what has happened.
type What uint8

// What may happen to a line.
const (
	Enter      What = iota // a caller with Want and Lease, its own, comes; Places should stand
	Wait                   // Caller, which has entered, waits
	Attends                // Caller is in Await, or not any more: Awaits
	Leave                  // Caller does not wait any more
	Granted                // Lease, that was asked for, is held; Sealed
	Told                   // the server makes who asks for Lease wait; Left is the rest of the lease in the way
	Crowded                // other processes wait for Lease, which is about to be Granted
	Failed                 // Lease is not asked for any more
	Done                   // a user of Lease, who has it as Want, is done; Sealed, Plain, Blind, RoundTrip
	HandedOver             // Lease has the key of From now, and Fences from Fence on, its own first; Waits
	PassedOn               // From is given up, and Lease is asked for in its place
	Ended                  // Lease is over, or was given back
	Sealed                 // nobody else is to have Lease
	Watched                // Caller watches
	Heard                  // the server has said: Number, Fences from Fence on, Waits; or it has not: Unheard
	LeftPlace              // who asks for Lease has left a place in the queue of the server, with Score
	TakesPlace             // who asks for Lease takes a place there
)

// Event is something that happens to a line.
type Event struct {
	What      What
	Now       clock.Instant
	Lease     Leased
	From      Leased
	Caller    *Caller
	Awaits    bool
	Want      Want
	Places    int
	Left      time.Duration
	Sealed    bool // nobody else may go on with Lease without a command
	Plain     bool // Lease can only be given back
	Blind     bool // the server cannot say whether others wait
	Number    uint32
	Unheard   bool
	RoundTrip time.Duration // to the server: it is how long a question may have no answer
	Fence     uint64
	Fences    int
	Waits     time.Duration // for how long another process has waited; 0: none waits
	Score     int64
}

// Outcome is what a step means for whoever has caused it.
type Outcome struct {
	Role   Role          // of Enter, Leave
	Grant  Grant         // of Enter
	Open   bool          // of Granted: other readers may have the lease too
	Back   bool          // of Done: nobody goes on with the lease: give it back
	Watch  bool          // of Granted: others depend on the end of the lease being noticed
	Lease  Leased        // of Watched: that is in the way; nil: none
	Score  int64         // of TakesPlace: that of a place that another has left, and nobody has taken; 0: none
	Signal *clock.Signal // to be sent after the step, best when no mutex is held; nil: none
}
