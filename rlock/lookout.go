package rlock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// lookout notices at once that a lock was lost, where the server tells of changed
// keys (see Hook). It reads the keys of held locks with tracking on, so that the
// server tells of their next change. That is a hint, as every extension is one: the
// lookout reads the key again, which also has the server track it anew. What
// changes within a moment is read together, so the extension of many locks costs
// one read a script.
//
// It looks after the locks that are extended and those whose Context was asked
// for. On a cluster, where a client cannot say which node is to track, their
// extensions have to notice.
//
// Its mutex is taken last.
type lookout struct {
	client rueidis.Client
	calls  context.Context // ends with the Locker

	mu      sync.Mutex
	suspect []*Lock // to be read in the next round
	timer   *time.Timer
	next    instant // of the next round; never: none is planned
	busy    bool    // a round is under way
}

const (
	firstLook   = 20 * time.Millisecond // a lock that is held for less is never read
	gatherLooks = 2 * time.Millisecond
	lookAgain   = time.Second // after an error
	lookTimeout = 2 * time.Second
	lookKeys    = 100 // of one command
	lookReads   = 100 // of one pipeline
)

// listen has the lookout look after the lock, once it has been held for a moment.
// The caller holds mu.
func (l *Lock) listen() {
	if !l.listens && l.locker.listens() && l.end.Load() == nil {
		l.takeCare()
		l.locker.lookout.doubt(l, firstLook)
	}
}

// listens reports whether the server tells of changed keys.
func (l *Locker) listens() bool { return l.hook != nil && !l.cluster }

// register has the Hook tell the lock of changes, before its keys are read for the
// first time. It reports false if the lock has ended.
func (l *Lock) register() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end.Load() != nil {
		return false
	}
	if !l.listens {
		l.listens = true
		for _, key := range l.keys() {
			l.locker.hook.hold(key, l)
		}
	}
	return true
}

// unlisten takes register back. The caller holds mu.
func (l *Lock) unlisten() {
	for _, key := range l.keys() {
		l.locker.hook.drop(key, l)
	}
}

// changed is called by the Hook.
func (l *Lock) changed() { l.locker.lookout.doubt(l, gatherLooks) }

// doubt has a lock read after wait, or earlier.
func (o *lookout) doubt(l *Lock, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !l.suspect {
		l.suspect = true
		o.suspect = append(o.suspect, l)
	}
	o.plan(wait)
}

// plan has a round start after wait, or earlier. The caller holds mu.
func (o *lookout) plan(wait time.Duration) {
	at := now().after(wait)
	if o.busy || at >= o.next {
		return // a round that ends plans the next
	}
	o.next = at
	if o.timer == nil {
		o.timer = time.AfterFunc(wait, o.round)
	} else {
		o.timer.Reset(wait)
	}
}

// round reads the suspect locks. They are no longer suspect before they are read:
// what changes from then on is looked at in another round.
func (o *lookout) round() {
	o.mu.Lock()
	o.next = never
	if o.busy {
		o.mu.Unlock()
		return
	}
	o.busy = true
	locks := o.suspect
	o.suspect = nil
	for _, l := range locks {
		l.suspect = false
	}
	o.mu.Unlock()

	unread := o.look(locks)

	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
	if len(o.suspect) > 0 {
		o.plan(gatherLooks)
	}
	for _, l := range unread {
		if !l.suspect {
			l.suspect = true
			o.suspect = append(o.suspect, l)
		}
		o.plan(lookAgain)
	}
}

// look reads locks, ends those that are lost, and returns those that it could not
// read.
func (o *lookout) look(locks []*Lock) (unread []*Lock) {
	var reads [][]*Lock // the locks of each command
	keys := lookKeys
	for _, l := range locks {
		if !l.register() {
			continue
		}
		if keys >= lookKeys {
			reads, keys = append(reads, nil), 0
		}
		reads[len(reads)-1] = append(reads[len(reads)-1], l)
		keys += len(l.keys())
	}
	ctx, cancel := context.WithTimeout(o.calls, lookTimeout)
	defer cancel()
	for len(reads) > 0 {
		some := reads[:min(len(reads), lookReads)]
		reads = reads[len(some):]
		unread = append(unread, o.read(ctx, some)...)
	}
	return unread
}

// read is look for as many commands as a pipeline should have.
func (o *lookout) read(ctx context.Context, reads [][]*Lock) (unread []*Lock) {
	commands := make(rueidis.Commands, 0, 2*len(reads))
	for _, locks := range reads {
		mget := o.client.B().Mget().Key()
		for _, l := range locks {
			mget = mget.Key(l.keys()...)
		}
		// Redis tracks what the command behind this one reads. It refuses where it
		// tracks everything anyway.
		commands = append(commands, o.client.B().ClientCaching().Yes().Build(), mget.Build())
	}
	replies := o.client.DoMulti(ctx, commands...)
	for i, locks := range reads {
		owners, err := replies[2*i+1].ToArray()
		if err != nil {
			unread = append(unread, locks...)
			continue
		}
		for _, l := range locks {
			l.compare(owners[:len(l.keys())])
			owners = owners[len(l.keys()):]
		}
	}
	return unread
}

// compare ends the lock if one of its keys has another value than its token.
func (l *Lock) compare(owners []rueidis.RedisMessage) {
	for _, owner := range owners {
		if token, err := owner.ToString(); err != nil || token != l.token {
			l.mu.Lock()
			l.finish(lost)
			l.mu.Unlock()
			return
		}
	}
}
