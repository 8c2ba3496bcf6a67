// Package line has the callers of one process who want the same key. It decides which caller asks the
// server, which waits, and which goes on with a lease that another caller has given up. Whole locks,
// readers and permits have the same two rules:
//
//	serve  A lease without a user goes to the first waiting caller, or back to the server.
//	stand  Only as many callers ask the server as can use what it gives. The others send nothing.
//
// A Line is a value that only Step changes. It asks no server, reads no clock, starts nothing, and knows no
// token. Lines has the lines of all keys, each under the mutex of its shard.
package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Mode says how a caller takes a key.
type Mode uint8

// The modes. They differ in how many callers use a lease, and in how many leases a line may have.
const (
	Whole   Mode = iota // one caller has the only lease
	Readers             // the readers that come within a turn use one lease together
	Permits             // each caller has a lease of its own, and a line has several
)

// Kind has what the callers of one Line have in common. For a whole lock, Enter needs only the Key.
type Kind struct {
	Key     string
	Mode    Mode
	Limit   int // with Permits: how many there are
	Permits int // with Permits: how many each caller wants
	Owner   string
	TTL     time.Duration
	Extends bool
}

// most is how many callers can have their permits at a time.
func (k *Kind) most() int { return max(k.Limit/max(k.Permits, 1), 1) }

// Want is what a caller wants of its lease.
type Want struct {
	TTL     time.Duration
	Owner   string // what the token says about the caller
	Extends bool   // the caller extends the lease anyway
	Fenced  bool   // the lease has a fence of its own
	Own     bool   // no other caller may have its token
	Full    bool   // the lease must begin anew, with the whole TTL
	Slow    bool   // user code runs before each wait
}

// Leased is a lease as a Line knows it. nil means none. A Line calls the methods while it holds a mutex.
type Leased interface {
	Part() *Lease            // always the same pointer, and different from that of any other lease
	Key() string             // the Key of its Kind
	Deadline() clock.Instant // the latest time at which the lease ends
}

// Lease is the part of a lease that the Line knows. The mutex of its shard guards it. The zero Lease is in
// no line, and a Handle of it does nothing.
type Lease struct {
	shard *shard // nil: the lease was never in a line
	// nil: no caller waits behind the lease, and nothing else is known of the key. Only Lines sets line.
	line       *Line
	until      clock.Instant // with Readers and Permits: the end of the turn in which others may have the lease
	silence    clock.Silence
	users      int32 // callers who use the lease, or are about to
	state      State
	open       bool // other readers may use the lease too
	stands     bool // with Permits, while a caller asks for it: the lease counts as standing in the queue
	madeToWait bool // with Permits, while a caller asks for it: the server has made the caller wait
}

// State is where a lease is. Only Step changes it.
//
//	out ─Enter─▶ asked ─Granted─▶ live ─the last user is done─▶ back ─Ended─▶ out
//	             asked ─Failed─▶ out     live ─Ended─▶ out
//	live ─given to one who moves its key─▶ moving ─HandedOver, PassedOn─▶ out
//	             moving ─it is Done─▶ live, to be served anew
type State uint8

const (
	out    State = iota // in no line
	asked               // a caller asks the server for it
	live                // it is granted
	moving              // its key goes to another lease, and only that lease tells the result
	back                // a caller gives it back
)

// Caller is a waiting caller in a line. The mutex of its shard guards it.
type Caller struct {
	shard *shard
	line  *Line
	want  Want
	own   Leased // the lease for which it asks once the line calls it
	role  Role
	grant Grant

	next, prev *Caller
	signal     *clock.Signal // sent when the Role changes
	watches    bool          // see Watch
	awaits     bool          // it learns of another role at once: it is in Await, or not Slow
}

// Role says what a caller must do.
type Role uint8

// The roles. A signal tells a caller that Waits when its role changes.
const (
	Waits Role = iota
	Asks       // it asks the server for its own lease, and then calls Granted or Failed
	Given      // it has Grant.Lease: it holds the lease, or is Done with it
	Gone       // it has left
)

// Grant is a lease that another caller has given up or shares.
type Grant struct {
	Lease   Leased
	Do      Do
	Fence   uint64 // with GoOn: the fence of the caller, if it wants one
	Reserve int    // with HandOver and Ask: how many fences the caller takes from the server
	Watch   bool   // others rely on the holder to notice the end of the lease
	// with GoOn: ask the server whether another process waits, and tell Heard this number; 0: do not
	Ask uint32
	Met bool // with PassOn: this process has seen another process with the key
}

// Do says what the caller does with a lease that it gets.
type Do uint8

const (
	GoOn     Do = iota // hold it
	HandOver           // let the server give the key to its own lease, then call HandedOver or PassedOn
	PassOn             // let the server give the key to the process that waits first, then call PassedOn
)

// Line has the waiting callers of one Kind, and the lease that is in their way.
type Line struct {
	*Kind
	key   string        // of a Whole lock, whose Kind has no key
	turns time.Duration // for how long this process keeps what others may wait for: see turn

	// Whole: the only lease; Readers: the lease for which new callers wait, or which they share; nil: none
	lease      Leased
	asker      Leased // the last lease for which a caller asked
	head, tail *Caller
	watching   int // how many waiting callers watch
	leases     int // leases that callers ask for, have, or give back
	asking     int // callers who ask the server
	standing   int // asking callers who stand in the queue, as far as this process knows, or are called to it
	places     int // how many asking callers should stand there while others wait here

	turn   turn
	number uint32        // of the last question of any turn
	score  int64         // of a place in the queue that a caller has left; 0: none
	other  clock.Instant // Whole: when the lease of another process ends for which the asker waits; 0: not known
	met    bool          // Whole: this process has seen another process with the key
}

// What says what has happened.
type What uint8

// What may happen to a line.
const (
	// a caller comes, with Want and its own Lease; Places says how many should stand in the queue
	Enter   What = iota
	Wait         // Caller has entered, and waits
	Attends      // Caller is in Await or not: Awaits
	Leave        // Caller stops waiting
	Granted      // the caller who asked for Lease holds it; Sealed
	// the server makes the caller who asks for Lease wait; Left is the rest of the lease in the way
	Told
	Crowded    // other processes wait for Lease, and Granted follows
	Failed     // the caller stops asking for Lease
	Done       // a user of Lease is done, and had it as Want says; Sealed, Plain, Blind, RoundTrip
	HandedOver // Lease has the key of From now; the first of Fences, Fence, is its own; Waits
	PassedOn   // From is given up, and the caller asks for Lease in its place
	Ended      // Lease is over, or a caller has given it back
	Sealed     // no other caller may have Lease
	Watched    // Caller watches
	Heard      // the server has answered: Number, Fence, Fences, Waits; or it has not: Unheard
	LeftPlace  // the caller who asks for Lease has left a place in the queue, with Score
	TakesPlace // the caller who asks for Lease takes a place there
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
	Sealed    bool // no other caller may go on with Lease without a command
	Plain     bool // the caller can only give Lease back
	Blind     bool // the server cannot say whether others wait
	Number    uint32
	Unheard   bool
	RoundTrip time.Duration // to the server; it bounds how long a question may have no answer
	Fence     uint64
	Fences    int
	Waits     time.Duration // for how long another process has waited; 0: none waits
	Score     int64
}

// Outcome says what a step means for the caller who has caused it.
type Outcome struct {
	Role  Role   // of Enter, Leave
	Grant Grant  // of Enter
	Open  bool   // of Granted: other readers may have the lease too
	Back  bool   // of Done: no caller goes on with the lease, so this caller gives it back
	Watch bool   // of Granted: others rely on the holder to notice the end of the lease
	Lease Leased // of Watched: the lease in the way; nil: none
	// of TakesPlace: the score of a place that a caller has left and no caller has taken; 0: none
	Score  int64
	Signal *clock.Signal // the caller sends it after the step, best when it holds no mutex; nil: none
}
