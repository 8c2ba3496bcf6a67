package line

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Lines has the lines of one process. A key that nobody holds or wants costs no memory.
type Lines struct {
	turn    time.Duration
	seed    maphash.Seed
	shards  [64]shard
	callers sync.Pool // of *Caller
}

// shard has the lines of some keys. While its mutex is held, nothing is called but methods of a Leased, so
// callers may hold a mutex of their own.
type shard struct {
	lines         *Lines
	mu            sync.Mutex
	alone         map[string]Leased // of whole locks: a lease behind which nobody waits costs no Line
	whole         map[string]*Line  // of the other whole locks, by their key
	shared        map[Kind]*Line
	size          int    // number of whole locks at which sweep looks for leases that have ended unnoticed
	lastContended string // the last key that other processes held or waited for
}

// wholeKind is the Kind of all whole locks. Their lines have the key.
var wholeKind Kind

// New returns Lines without callers. turn is how long this process may keep what others wait for to itself.
func New(turn time.Duration) *Lines {
	ls := &Lines{turn: turn, seed: maphash.MakeSeed()}
	for i := range ls.shards {
		ls.shards[i].init(ls)
	}
	return ls
}

// Turn is how long this process may keep what others wait for to itself.
func (ls *Lines) Turn() time.Duration { return ls.turn }

func (s *shard) init(lines *Lines) {
	s.lines, s.alone, s.whole, s.shared = lines, map[string]Leased{}, map[string]*Line{}, map[Kind]*Line{}
}

func (ls *Lines) shard(key string) *shard {
	return &ls.shards[maphash.String(ls.seed, key)%uint64(len(ls.shards))]
}

// Enter says what a caller has to do who wants own, which must be new. If it has to wait, it has a place in
// the line, unless wait is false: then it asks as if there were no line. places is how many of those who
// want permits should stand in the queue of the server.
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

// Entered is what a caller has to do who has come.
type Entered struct {
	Role   Role
	Grant  Grant         // with Given
	Caller *Caller       // with Waits
	Left   time.Duration // with Waits: what Caller.Remaining returns
}

// lineOf returns the line of a Kind, nil for a whole lock that nobody has or asks for. The caller holds mu.
func (s *shard) lineOf(kind *Kind, now clock.Instant) *Line {
	if kind.Mode != Whole {
		l := s.shared[*kind]
		if l == nil {
			own := *kind
			own.Key, own.Owner = strings.Clone(kind.Key), strings.Clone(kind.Owner) // it may outlive the caller's
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

// needLine returns the line of a lease, which it makes if it was alone. The caller holds mu.
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

// takeAlone makes a new line that of a lease which has been alone.
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

// take takes a step, and wakes at once who has another Role. The caller holds mu.
func (l *Line) take(e *Event) Outcome {
	o := l.Step(e)
	o.Signal.Send()
	return o
}

// tidy forgets a line that nobody needs. The caller holds mu.
func (s *shard) tidy(l *Line) {
	switch {
	case !l.idle():
	case l.Mode != Whole && s.shared[*l.Kind] == l:
		delete(s.shared, *l.Kind)
	case l.Mode == Whole && s.whole[l.key] == l:
		delete(s.whole, l.key)
	}
}

// sweep removes leases that have ended with nobody behind them and no Release. It does nothing until there
// are twice as many keys as after the last time. The caller holds mu.
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

// Holder returns the lease by which this process holds the whole lock of a key, as far as it knows; nil:
// none.
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

// Wake ends the present Await of every caller, after the stop of these waits was closed.
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

// newCaller returns a Caller, which may be one that another has left.
func (ls *Lines) newCaller() *Caller {
	if c, _ := ls.callers.Get().(*Caller); c != nil {
		return c
	}
	return &Caller{signal: clock.NewSignal()}
}

// free gives a Caller that waits no more to the next who waits.
func (c *Caller) free() {
	if c.watches {
		c.signal.Stop() // the timer may be set for an hour
	}
	lines := c.shard.lines
	*c = Caller{signal: c.signal}
	lines.callers.Put(c)
}

// Await waits until Ready returns something else than Waits, and returns that, or Waits at an instant or once
// answered is closed, which may be nil. It returns why ctx ended if that comes first, and clock.ErrStopped if
// stop is closed: whoever closes it calls Wake. now is a recent reading of the clock. One goroutine at a time
// may wait, and not after another role was returned.
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
		if c.want.Slow || now >= until { // or else the signal tells
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

// Ready returns what the caller has to do now. If that is not to wait, the Caller is not used any more.
func (c *Caller) Ready() (r Role, g Grant) { return c.ready(false, clock.Past) }

// ready is Ready for a caller that is in Await, or not.
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

// Leave ends the wait of a caller, which is not used any more. If another has given it a lease meanwhile,
// Leave returns Given: the caller has that, as if it had left a moment later. Otherwise it returns Gone.
func (c *Caller) Leave() (r Role, g Grant) {
	s, l := c.shard, c.line
	s.mu.Lock()
	r, g = l.take(&Event{What: Leave, Caller: c}).Role, c.grant
	s.tidy(l)
	s.mu.Unlock()
	c.free()
	return r, g
}

// Watch notes that a caller waits for long: from now on, who gets a lease before it is told to have the end
// of that noticed. Watch returns the lease that is in its way now; nil: there is none.
func (c *Caller) Watch() Leased {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return c.line.take(&Event{What: Watched, Caller: c}).Lease
}

// Behind returns the lease that a caller is directly behind; nil: others are between them, or nobody has one.
func (c *Caller) Behind() Leased {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.role != Waits || c.prev != nil {
		return nil
	}
	return c.line.holder()
}

// Remaining returns what is left of the lease that a caller waits for, whether this process has it or
// another; 0: that is not known. now is a recent reading of the clock.
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
