package rlock

import "time"

// overlap keeps the local deadline on the safe side of the server's lease while
// extensions are under way, or were lost.
//
// The server may run extensions that overlap in any order, and a lost one at any
// later time. When one that was sent at s with a lease of d is confirmed, the last
// to run is that one or another, which then ran after s. So the lease ends no
// earlier than s + the shortest lease of all that overlapped it or were lost.
type overlap struct {
	pending int32
	shared  bool          // more than one was under way since none was
	least   time.Duration // shortest lease of those
	doubt   time.Duration // shortest lease of those that were lost; 0: none was
}

// known reports whether the server's lease is the one that counts here, and no longer.
func (o *overlap) known() bool { return o.pending == 0 && !o.shared && o.doubt == 0 }

// certain returns how much of a lease counts.
func (o *overlap) certain(ttl time.Duration) time.Duration {
	if o.doubt > 0 {
		ttl = min(ttl, o.doubt)
	}
	return ttl
}

// extension is one that is under way.
type extension struct {
	sent   instant
	ttl    time.Duration
	before instant // deadline until then
}

// beginExtension notes an extension that is sent now. A shorter lease counts at
// once, because the server may have it before the answer is here; a longer one
// when it is confirmed. The caller holds mu.
func (l *Lock) beginExtension(ttl time.Duration) extension {
	l.takeCare()
	e := extension{sent: now(), ttl: ttl, before: instant(l.deadline.Load())}
	l.extended = e.sent
	o := &l.lease
	if o.pending == 0 {
		o.shared, o.least = false, ttl
	}
	o.pending++
	o.shared = o.shared || o.pending > 1
	o.least = min(o.least, ttl)
	if end := leaseEnd(e.sent, o.certain(ttl)); end < e.before {
		l.deadline.Store(int64(end))
		l.locker.keeper.follow(l, e.sent.after(o.certain(ttl)/renewals))
	}
	return e
}

// endExtension notes the answer of an extension. The caller holds mu, and has
// ended the lock if its lease was over before the answer came: its deadline stays.
func (l *Lock) endExtension(e extension, answer answer) {
	o := &l.lease
	o.pending--
	end := instant(l.deadline.Load())
	switch answer {
	case confirmed:
		end = max(end, leaseEnd(e.sent, o.certain(min(e.ttl, o.least))))
	case refused:
		if !o.shared { // the server has not touched the lease
			end = max(end, e.before)
		}
	case unknown:
		if o.doubt == 0 || e.ttl < o.doubt {
			o.doubt = e.ttl
		}
	}
	if l.end.Load() == nil {
		l.deadline.Store(int64(end))
	}
}

// answer is what is known of a command's outcome.
type answer int

const (
	confirmed answer = iota // the server ran it
	refused                 // the server did not run it
	unknown                 // the reply was lost: it may have run, or may still run
)
