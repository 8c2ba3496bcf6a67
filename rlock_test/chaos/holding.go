package chaos

import (
	"context"
	"time"
)

// holding is a lock that a worker has.
type holding struct {
	*worker
	lock   lock
	number int
	keys   []string
	ttl    time.Duration // longest lease that the worker has asked for
	extend bool

	until instant // last instant at which the worker saw the lock valid
}

// valid asks the lock whether it is valid, and remembers the answer.
func (h *holding) valid() bool {
	at := now()
	if h.lock.Err() != nil {
		return false
	}
	h.until = at
	return true
}

// use works under the lock for a few steps.
func (h *holding) use() {
	for range h.random.IntN(4) {
		switch draw := h.random.IntN(100); {
		case draw < 40:
			h.write()
		case draw < 68:
			h.linger(h.between(0, 25*time.Millisecond))
		case draw < 70:
			h.linger(h.between(0, 3*time.Second))
		case draw < 90:
			h.prolong()
		default:
			h.check()
		}
	}
	h.write()
}

// write writes to the fenced resource while the lock seems to be held. The process can stop between
// the look at the lock and the write.
func (h *holding) write() {
	for _, key := range h.keys {
		if !h.valid() {
			return
		}
		e := event{Kind: wrote, Lock: h.number, Keys: []string{key}, Fence: h.lock.Fence(), Call: now()}
		var err error
		if e.Accepted, err = h.resource.write(context.Background(), key, e.Fence); err != nil {
			e.Outcome, e.Error = outcomeOf(err)
		}
		e.Return = now()
		e.Valid = h.valid()
		h.record(e)
	}
}

func (h *holding) prolong() {
	ttl := h.worker.ttl()
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	e := event{Kind: extended, Method: "Extend", Lock: h.number, Keys: h.keys, Call: now()}
	err := h.lock.Extend(ctx, ttl)
	e.Return = now()
	e.Outcome, e.Error = outcomeOf(err)
	h.ttl = max(h.ttl, ttl)
	e.TTL, e.Deadline = h.ttl, instantOf(h.lock.Deadline())
	h.record(e)
}

func (h *holding) check() {
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	e := event{Kind: checked, Method: "Lock.Verify", Lock: h.number, Keys: h.keys, Call: now()}
	err := h.lock.Verify(ctx)
	e.Return, e.Deadline = now(), instantOf(h.lock.Deadline())
	e.Outcome, e.Error = outcomeOf(err)
	h.record(e)
}

// linger holds the lock for d, and notices the end of the lock.
func (h *holding) linger(d time.Duration) {
	for end := now().add(d); now() < end && h.valid(); {
		time.Sleep(min(end.sub(now()), 2*time.Millisecond))
	}
}

// outlast holds the lock until its lease is over. Around this time it looks at the lock without a
// pause.
func (h *holding) outlast() {
	const closely = 2 * time.Millisecond
	for limit := now().add(2 * h.ttl); h.valid() && now() < limit; {
		if left := time.Until(h.lock.Deadline()); left.Abs() > closely {
			time.Sleep(min((left - closely).Abs(), 10*time.Millisecond))
		}
	}
}

// give gives the lock up in one of several ways.
func (h *holding) give() {
	const most = 300 * time.Millisecond // while longer leases end, the other workers would get nothing done
	switch draw := h.random.IntN(100); {
	case draw < 10 && !h.extend && h.ttl <= most:
		h.outlast()
		h.end(abandoned)
	case draw < 25 && !h.extend && h.ttl <= most:
		h.outlast()
		h.linger(h.between(0, 50*time.Millisecond))
		h.release()
	default:
		h.release()
	}
}

// end notes that the holder uses the lock no more, and returns when. From then on the keys of the
// lock may be free.
func (h *holding) end(how outcome) instant {
	at := now()
	h.valid()
	h.record(event{Kind: ending, Lock: h.number, Keys: h.keys, Call: at, Return: at, Until: min(h.until, at),
		Outcome: how})
	return at
}

func (h *holding) release() {
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	call := h.end(done)
	h.settleRelease(call, h.lock.Release(ctx))
}

// settleRelease notes how a release ended.
func (h *holding) settleRelease(call instant, err error) {
	e := event{Kind: released, Method: "Release", Lock: h.number, Keys: h.keys, Call: call, Return: now(),
		TTL: h.ttl}
	e.Deadline = instantOf(h.lock.Deadline())
	e.Outcome, e.Error = outcomeOf(err)
	h.record(e)
}
