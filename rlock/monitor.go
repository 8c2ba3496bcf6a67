package rlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// monitor notices at once that a lock was lost, or its lease shortened by somebody
// else, where the server tells of changed keys (see Invalidations). It reads the keys of held
// locks with tracking on, so that the server tells of their next change. A message is
// a hint, because every extension causes one: the monitor reads the key again, which
// also has the server track it anew. What changes within a moment is read together, so
// the extension of many locks costs one read a script.
//
// It watches the locks that are extended and those whose Context was asked for. On a
// cluster, where a client cannot say which node is to track, their extensions have to
// notice.
//
// Its mutex is taken last.
type monitor struct {
	client  rueidis.Client
	scripts *gen.Scripts
	calls   context.Context // ends with the Locker

	mu      sync.Mutex
	unread  []*Lock // to be read
	timer   *time.Timer
	next    clock.Instant // of the next round; never: none is planned
	reading bool          // a round is under way
}

// monitored is what the monitor knows of a lock, and guards.
type monitored struct {
	at     clock.Instant // when it is to be read, or if it is not: when it was read last
	listed bool          // it is to be read
	told   bool          // the server has told of a change since it was read last
	vain   uint8         // reads in a row for which there was no reason
	asRead uint32        // guarded by the lock's mu: its extensions when it was read last, and 1; 0: it was not read
}

const (
	firstRead   = 20 * time.Millisecond // a lock that is held for less is never read
	gatherReads = 2 * time.Millisecond
	readAgain   = time.Second // after an error; the longest pause after reads in vain too
	readTimeout = 2 * time.Second
	readKeys    = 100 // of one command
	readBatch   = 100 // commands of one pipeline
)

// listen has the monitor watch the lock, once it has been held for a moment. The
// caller holds mu.
func (l *Lock) listen() {
	if !l.listens && l.locker.listens() && l.cause() == nil {
		l.needLifetime()
		l.locker.monitor.add(l, firstRead)
	}
}

// listens reports whether the server may tell of the keys of held locks.
func (l *Locker) listens() bool { return l.hook != nil && !l.cluster }

// hears reports whether the server does.
func (l *Locker) hears() bool { return l.listens() && l.heard.Load() }

// changed is called by the Invalidations.
func (l *Lock) changed() { l.locker.monitor.changed(l) }

// unlisten ends what register has begun. The caller holds mu.
func (l *Lock) unlisten() {
	for _, key := range l.keys() {
		l.locker.hook.drop(key, l)
	}
}

// add has a lock read after wait, or earlier.
func (o *monitor) add(l *Lock, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list(l, wait)
}

// changed has a lock read soon, since the server told of a change. It reads a lock ever
// more slowly for which the server does that all the time without a reason: its table
// of tracked keys may be full, so that each read makes it forget another key and say so.
func (o *monitor) changed(l *Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &l.monitored
	m.told = true
	wait := gatherReads
	switch {
	case m.listed || m.vain == 0:
	case clock.Now() > m.at.After(2*readAgain):
		m.vain = 0
	default:
		wait = m.patience()
	}
	o.list(l, wait)
}

// patience is how long a lock is left alone after so many reads in vain.
func (m *monitored) patience() time.Duration {
	return min(gatherReads<<m.vain, readAgain)
}

// list is for a caller who holds mu.
func (o *monitor) list(l *Lock, wait time.Duration) {
	m, at := &l.monitored, clock.Now().After(wait)
	if !m.listed {
		m.listed, m.at = true, at
		o.unread = append(o.unread, l)
	}
	m.at = min(m.at, at)
	o.plan(m.at)
}

// plan has a round start at that instant, or earlier. The caller holds mu.
func (o *monitor) plan(at clock.Instant) {
	if o.reading || at >= o.next {
		return // a round that ends plans the next
	}
	o.next = at
	if o.timer == nil {
		o.timer = time.AfterFunc(at.Until(), o.round)
	} else {
		o.timer.Reset(at.Until())
	}
}

// round reads locks. They are taken off the list before they are read: what changes
// from then on is read in another round.
func (o *monitor) round() {
	o.mu.Lock()
	o.next = clock.Never
	if o.reading {
		o.mu.Unlock()
		return
	}
	o.reading = true
	due := o.take()
	o.mu.Unlock()

	defer deliverAll(locksRead(due))
	unread := due
	defer func() { // also when an Observer ends the goroutine
		o.mu.Lock()
		defer o.mu.Unlock()
		o.reading = false
		for _, r := range unread {
			r.lock.monitored.told = r.lock.monitored.told || r.told
			o.list(r.lock, readAgain)
		}
		for _, l := range o.unread {
			o.plan(max(l.monitored.at, clock.Now().After(gatherReads)))
		}
	}()
	unread = o.read(due)
}

// reading is a lock that is being read.
type reading struct {
	lock    *Lock
	told    bool          // the server told of a change
	foreign bool          // which no extension of the lock's own explains
	version lease.Version // before it was read
}

func locksRead(due []reading) []*Lock {
	locks := make([]*Lock, len(due))
	for i, r := range due {
		locks[i] = r.lock
	}
	return locks
}

// take takes those off the list that are read now: all but those that are left alone for
// a while yet. The caller holds mu.
func (o *monitor) take() (due []reading) {
	at := clock.Now()
	o.unread = slices.DeleteFunc(o.unread, func(l *Lock) bool {
		m := &l.monitored
		if m.vain > 0 && m.at > at.After(m.patience()/4) {
			return false
		}
		due = append(due, reading{lock: l, told: m.told})
		m.listed, m.told, m.at = false, false, at
		return true
	})
	return due
}

// register has the Invalidations tell the lock of changes, before its keys are read for the
// first time. It reports false if the lock has ended.
func (r *reading) register() bool {
	l := r.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause() != nil {
		return false
	}
	r.version = l.lease.Version()
	r.foreign = r.told && l.asRead == r.version.Sent+1
	l.asRead = r.version.Sent + 1
	if !l.listens {
		l.listens = true
		for _, key := range l.keys() {
			l.locker.hook.hold(key, l)
		}
	}
	return true
}

// read reads locks, ends those that are lost, measures the lease of those that somebody
// else may have shortened, and returns those that it could not read.
func (o *monitor) read(due []reading) (unread []reading) {
	var (
		reads   [][]reading // the locks of each command
		keys    = readKeys
		foreign []reading
	)
	for _, r := range due {
		if !r.register() {
			continue
		}
		if keys >= readKeys {
			reads, keys = append(reads, nil), 0
		}
		reads[len(reads)-1] = append(reads[len(reads)-1], r)
		keys += len(r.lock.keys())
	}
	ctx, cancel := context.WithTimeout(o.calls, readTimeout)
	defer cancel()
	for some := range slices.Chunk(reads, readBatch) {
		failed, held := o.compare(ctx, some)
		unread, foreign = append(unread, failed...), append(foreign, held...)
	}
	return append(unread, o.measure(ctx, foreign)...)
}

// track returns the commands that read keys and have the server tell of their next
// change. Redis tracks what the command behind CLIENT CACHING reads, and refuses that
// one where it tracks everything anyway. A pooled connection drops what it is told, so
// the commands ask for one of those that are shared.
func track(client rueidis.Client, keys []string) rueidis.Commands {
	return rueidis.Commands{
		client.B().ClientCaching().Yes().Build().ToPipe(),
		client.B().Mget().Key(keys...).Build().ToPipe(),
	}
}

// compare reads as many commands as a pipeline should have, and ends the locks of which
// one key has another value than its token. It returns the locks that it could not
// read, and those held whose keys somebody else has changed.
func (o *monitor) compare(ctx context.Context, reads [][]reading) (unread, foreign []reading) {
	commands := make(rueidis.Commands, 0, 2*len(reads))
	for _, locks := range reads {
		commands = append(commands, track(o.client, keysOf(locks))...)
	}
	replies := o.client.DoMulti(ctx, commands...)
	for i, locks := range reads {
		owners, err := replies[2*i+1].ToArray()
		if err != nil {
			unread = append(unread, locks...)
			continue
		}
		for _, r := range locks {
			n := len(r.lock.keys())
			held, again := r.lock.compare(owners[:n], r.version)
			owners = owners[n:]
			if again {
				o.changed(r.lock)
			}
			if held && r.foreign {
				foreign = append(foreign, r)
			} else {
				o.calm(r.lock)
			}
		}
	}
	return unread, foreign
}

func keysOf(locks []reading) (keys []string) {
	for _, r := range locks {
		keys = append(keys, r.lock.keys()...)
	}
	return keys
}

// compare ends the lock if one of its keys has another value than its token, and
// reports whether it is still held. It must be read again if its token has changed since
// the keys were asked for.
func (l *Lock) compare(owners []rueidis.RedisMessage, version lease.Version) (held, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range owners {
		token, _ := owner.ToString() // none is "", which is nobody's
		switch is, again := l.lease.Lost(token, version); {
		case is:
			l.finish(stateLost)
			return false, false
		case again:
			return true, true
		}
	}
	return true, false
}

// measure asks how much is left of leases that somebody else may have shortened.
func (o *monitor) measure(ctx context.Context, locks []reading) (unread []reading) {
	var params []gen.InspectParams
	var asked [][]reading
	for len(locks) > 0 {
		n, keys := 0, []string(nil)
		for n < len(locks) && len(keys) < readKeys {
			keys = append(keys, locks[n].lock.keys()...)
			n++
		}
		params, asked = append(params, gen.InspectParams{Locks: keys}), append(asked, locks[:n])
		locks = locks[n:]
	}
	for len(params) > 0 {
		n := min(len(params), readBatch)
		sent := clock.Now()
		replies := o.scripts.InspectBatch(ctx, o.client, params[:n])
		received := clock.Now()
		for i, reply := range replies {
			if reply.Err != nil || len(reply.Value.Remaining) != len(params[i].Locks) {
				unread = append(unread, asked[i]...)
				continue
			}
			left := reply.Value.Remaining
			for _, r := range asked[i] {
				keys := len(r.lock.keys())
				if o.judge(r, left[:keys], sent, received) == lease.Unsettled {
					unread = append(unread, r)
				}
				left = left[keys:]
			}
		}
		params, asked = params[n:], asked[n:]
	}
	return unread
}

// judge follows the answer that so much is left of the leases of a lock's keys.
func (o *monitor) judge(r reading, each []time.Duration, sent, received clock.Instant) lease.Verdict {
	least := NoExpiry
	for _, left := range each {
		if left == -2*time.Millisecond { // the key is gone, and the server will tell
			o.calm(r.lock)
			return lease.Settled
		}
		least = min(least, remaining(left))
	}
	found := lease.Unharmed
	if least != NoExpiry {
		found = r.lock.shorten(r.version, least, sent, received)
	}
	if found != lease.Unharmed {
		o.calm(r.lock)
		return found
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := &r.lock.monitored; m.patience() < readAgain {
		m.vain++
	}
	return found
}

// calm notes that there was a reason to read a lock.
func (o *monitor) calm(l *Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.monitored.vain = 0
}

// shorten follows a lease that somebody else may have shortened: it is extended at once if
// the lock is extended at all, and else the deadline comes nearer. The lease was read after
// that version, with so much left of it between sent and received.
func (l *Lock) shorten(version lease.Version, left time.Duration, sent, received clock.Instant) lease.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause() != nil {
		return lease.Settled
	}
	before := l.lease.Deadline()
	verdict := l.lease.Shortened(version, left, sent, received)
	if l.lease.Deadline() < before {
		at := clock.Never
		if verdict == lease.Settled {
			at = clock.Now()
		}
		l.advanceRenewal(at)
	}
	return verdict
}
