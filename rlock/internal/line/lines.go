package line

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Lines has the lines of one process. A key that no caller holds or wants costs no memory.
type Lines struct {
	turn    time.Duration
	seed    maphash.Seed
	shards  [64]shard
	callers sync.Pool // of *Caller
}

// shard has the lines of some keys. While a goroutine holds the mutex, it calls only methods of a Leased.
// So its caller may hold a mutex of its own.
type shard struct {
	lines         *Lines
	mu            sync.Mutex
	alone         map[string]Leased // whole locks behind which no caller waits: their leases cost no Line
	whole         map[string]*Line  // the other whole locks, by their key
	shared        map[Kind]*Line
	size          int    // how many whole locks make sweep look for leases that have ended unnoticed
	lastContended string // the last key that another process held when this process asked for it
}

// wholeKind is the Kind of all whole locks. The line has the key.
var wholeKind Kind

// New returns Lines without callers. turn is how long this process may keep a key that others wait for.
func New(turn time.Duration) *Lines {
	ls := &Lines{turn: turn, seed: maphash.MakeSeed()}
	for i := range ls.shards {
		ls.shards[i].init(ls)
	}
	return ls
}

// Turn returns how long this process may keep a key that others wait for.
func (ls *Lines) Turn() time.Duration { return ls.turn }

func (s *shard) init(lines *Lines) {
	s.lines, s.alone, s.whole, s.shared = lines, map[string]Leased{}, map[string]*Line{}, map[Kind]*Line{}
}

func (ls *Lines) shard(key string) *shard {
	return &ls.shards[maphash.String(ls.seed, key)%uint64(len(ls.shards))]
}

// Enter says what a caller who wants own must do. own must be new. A caller who must wait gets a place in
// the line. With wait false it gets none, and asks the server as if there were no line. places says how
// many callers who want permits should stand in the queue.
func (ls *Lines) Enter(
	kind *Kind, own Leased, want *Want, wait bool, places int, now clock.Instant,
) (in Entered) {
	s := ls.shard(kind.Key)
	s.mu.Lock()
	s.enter(&in, kind, own, want, wait, places, now)
	s.mu.Unlock()
	return in
}

// enter is Enter. The caller holds mu.
func (s *shard) enter(
	in *Entered, kind *Kind, own Leased, want *Want, wait bool, places int, now clock.Instant,
) {
	at := own.Part()
	at.shard = s
	l := s.lineOf(kind, now)
	if l == nil {
		s.alone[kind.Key] = own
		alone := Line{Kind: &wholeKind}
		alone.Step(&Event{What: Enter, Lease: own, Want: *want, Places: 1, Now: now})
		in.Role = Asks
		return
	}
	at.line = l
	e := Event{What: Enter, Lease: own, Want: *want, Places: places, Now: now}
	o := l.Step(&e)
	o.Signal.Send()
	switch in.Role, in.Grant = o.Role, o.Grant; {
	case o.Role != Waits:
	case wait:
		c := s.lines.newCaller()
		c.shard, c.line, c.own, c.want, c.awaits = s, l, own, *want, !want.Slow
		e.What, e.Caller = Wait, c
		l.Step(&e)
		in.Caller, in.Left = c, l.remaining(now)
	default:
		at.shard, at.line, in.Role = nil, nil, Asks
	}
}

// Entered says what a caller who comes must do.
type Entered struct {
	Role   Role
	Grant  Grant         // with Given
	Caller *Caller       // with Waits
	Left   time.Duration // with Waits: what Caller.Remaining returns
}

// lineOf returns the line of a Kind. It returns nil for a whole lock that no caller has or asks for. The
// caller holds mu.
func (s *shard) lineOf(kind *Kind, now clock.Instant) *Line {
	if kind.Mode != Whole {
		l := s.shared[*kind]
		if l == nil {
			own := *kind
			// the line may outlive the strings of the caller
			own.Key, own.Owner = strings.Clone(kind.Key), strings.Clone(kind.Owner)
			l = &Line{Kind: &own, turns: s.lines.turn}
			s.shared[own] = l
		}
		return l
	}
	s.sweep(now)
	if l := s.whole[kind.Key]; l != nil {
		return l
	}
	if g := s.alone[kind.Key]; g != nil {
		return s.needLine(g)
	}
	return nil
}

// needLine returns the line of a lease. It makes the line if the lease was alone. The caller holds mu.
func (s *shard) needLine(g Leased) *Line {
	at := g.Part()
	if at.line == nil {
		l := &Line{key: strings.Clone(g.Key()), turns: s.lines.turn}
		l.takeAlone(g)
		at.line = l
		delete(s.alone, l.key)
		s.whole[l.key] = l
	}
	return at.line
}

// takeAlone puts a lease that was alone into a new line.
func (l *Line) takeAlone(g Leased) {
	l.Kind, l.lease, l.asker, l.leases, l.places = &wholeKind, g, g, 1, 1
	if g.Part().state == asked {
		l.asking = 1
	}
}

// step takes a step of the line of a lease, which may be alone. The caller holds mu.
func (s *shard) step(at *Lease, e *Event) (o Outcome) {
	if at.line != nil {
		o = at.line.Step(e)
		s.tidy(at.line)
		return o
	}
	if at.state == out {
		return Outcome{Back: e.What == Done}
	}
	var l Line
	l.takeAlone(e.Lease)
	o = l.Step(e)
	if e.What == Granted && s.lastContended == e.Lease.Key() {
		s.lastContended = ""
	}
	if l.idle() {
		delete(s.alone, e.Lease.Key())
	}
	return o
}

// take takes a step, and wakes at once the caller whose Role changes. The caller holds mu.
func (l *Line) take(e *Event) Outcome {
	o := l.Step(e)
	o.Signal.Send()
	return o
}

// tidy forgets a line that no caller needs. The caller holds mu.
func (s *shard) tidy(l *Line) {
	switch {
	case !l.idle():
	case l.Mode != Whole && s.shared[*l.Kind] == l:
		delete(s.shared, *l.Kind)
	case l.Mode == Whole && s.whole[l.key] == l:
		delete(s.whole, l.key)
	}
}

// sweep removes leases that have ended without a Release and with no caller behind them. It does nothing
// until the number of keys has doubled since its last run. The caller holds mu.
func (s *shard) sweep(now clock.Instant) {
	if len(s.alone)+len(s.whole) < s.size {
		return
	}
	for _, g := range s.alone {
		s.sweepLease(g, now)
	}
	for _, l := range s.whole {
		if l.lease != nil {
			s.sweepLease(l.lease, now)
		}
	}
	s.size = max(2*(len(s.alone)+len(s.whole)), 64)
}

func (s *shard) sweepLease(g Leased, now clock.Instant) {
	if g.Part().state == live && g.Deadline() <= now {
		s.step(g.Part(), &Event{What: Ended, Lease: g, Now: now}).Signal.Send()
	}
}

// Holder returns the lease by which this process holds the whole lock of a key, as far as this process
// knows. nil means none.
func (ls *Lines) Holder(key string) Leased {
	s := ls.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.whole[key]; l != nil {
		return l.holder()
	}
	if g := s.alone[key]; g != nil && g.Part().state == live {
		return g
	}
	return nil
}

// Wake ends the present Await of every caller. Call it after closing the stop of these waits.
func (ls *Lines) Wake() {
	for i := range ls.shards {
		ls.shards[i].wake()
	}
}

func (s *shard) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.whole {
		l.wake()
	}
	for _, l := range s.shared {
		l.wake()
	}
}

func (l *Line) wake() {
	for c := l.head; c != nil; c = c.next {
		c.signal.Send()
	}
}

// newCaller returns a Caller. It may reuse a Caller that another wait has freed.
func (ls *Lines) newCaller() *Caller {
	if c, _ := ls.callers.Get().(*Caller); c != nil {
		return c
	}
	return &Caller{signal: clock.NewSignal()}
}

// free gives a Caller that waits no more to the next wait.
func (c *Caller) free() {
	if c.watches {
		c.signal.Stop() // the timer may be set for an hour
	}
	lines := c.shard.lines
	*c = Caller{signal: c.signal}
	lines.callers.Put(c)
}

// Await waits until Ready returns another role than Waits, and returns that role. It returns Waits at
// until, or once answered is closed. answered may be nil. Await returns the cause of ctx if ctx ends first.
// It returns clock.ErrStopped if stop is closed. The goroutine that closes stop must call Wake.
//
// now is a recent reading of the clock. One goroutine at a time may call Await, and none after Await has
// returned another role.
func (c *Caller) Await(
	ctx context.Context, now, until clock.Instant, stop, answered <-chan struct{},
) (r Role, g Grant, err error) {
	for {
		select {
		case <-stop:
			return Waits, g, clock.ErrStopped
		case <-answered:
			until = now
		default:
		}
		if c.want.Slow || now >= until { // otherwise the signal tells
			if r, g = c.ready(now < until, now); r != Waits || now >= until {
				return r, g, nil
			}
		}
		if err := c.signal.Wait(ctx, now, until, answered); err != nil {
			return Waits, g, err
		}
		if r, g = c.ready(true, now); r != Waits {
			return r, g, nil
		}
		now = clock.Now()
	}
}

// Ready returns what the caller must do now. If the role is not Waits, the Caller must not be used any
// more.
func (c *Caller) Ready() (r Role, g Grant) { return c.ready(false, clock.Past) }

// ready is Ready for a caller that is in Await or not.
func (c *Caller) ready(awaits bool, now clock.Instant) (r Role, g Grant) {
	c.shard.mu.Lock()
	if c.want.Slow && c.awaits != awaits {
		c.line.take(&Event{What: Attends, Caller: c, Awaits: awaits, Now: now})
	}
	r, g = c.role, c.grant
	c.shard.mu.Unlock()
	if r != Waits {
		c.free()
	}
	return r, g
}

// Leave ends the wait of a caller. The Caller must not be used any more. If another caller has given it a
// lease meanwhile, Leave returns Given: the caller has the lease, as if it had left a moment later.
// Otherwise Leave returns Gone.
func (c *Caller) Leave() (r Role, g Grant) {
	s, l := c.shard, c.line
	s.mu.Lock()
	r, g = l.take(&Event{What: Leave, Caller: c}).Role, c.grant
	s.tidy(l)
	s.mu.Unlock()
	c.free()
	return r, g
}

// Watch notes that a caller waits for long. From now on, the line tells each caller who gets a lease before
// it to notice the end of that lease. Watch returns the lease that is in the way now. nil means none.
func (c *Caller) Watch() Leased {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return c.line.take(&Event{What: Watched, Caller: c}).Lease
}

// Behind returns the lease that a caller is directly behind. It returns nil if other callers are between
// them, or if no caller has a lease.
func (c *Caller) Behind() Leased {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.role != Waits || c.prev != nil {
		return nil
	}
	return c.line.holder()
}

// Remaining returns the rest of the lease for which a caller waits. This process or another has that lease.
// 0 means that the rest is not known. now is a recent reading of the clock.
func (c *Caller) Remaining(now clock.Instant) time.Duration {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return c.line.remaining(now)
}

func (l *Line) remaining(now clock.Instant) time.Duration {
	switch g := l.holder(); {
	case l.Mode != Whole:
	case g != nil:
		return max(g.Deadline().From(now), time.Millisecond)
	case l.other != 0:
		return max(l.other.From(now), 0)
	}
	return 0
}
