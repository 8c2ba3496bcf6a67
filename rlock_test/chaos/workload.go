package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	operationLimit = 1500 * time.Millisecond // of an operation without a wait, where the network is silent
	longestWait    = 3 * time.Second         // for a lock that another caller holds
)

// worker is one goroutine that takes, uses and gives up locks, as its generator says.
type worker struct {
	*process
	service lockService
	number  int // distinct in the whole run, from 1
	random  *rand.Rand
}

func (p *process) newWorker(locker, n int) *worker {
	number := p.Process*100 + locker*10 + n + 1
	return &worker{
		process: p,
		service: p.services[locker],
		number:  number,
		random:  rand.New(rand.NewPCG(p.Seed, uint64(number))),
	}
}

// load works until ctx ends. It finishes the operation that is under way.
func (w *worker) load(ctx context.Context) {
	for ctx.Err() == nil {
		if rushHour() {
			w.rush()
			continue
		}
		switch draw := w.random.IntN(100); {
		case w.chance(w.Sharing):
			w.share()
		case draw < 40:
			w.take(operationLimit, "TryAcquire", w.keys(1, false), wish{})
		case draw < 60:
			w.take(w.wait(), "Acquire", w.keys(1, true), wish{wait: true, extend: w.chance(60)})
		case draw < 66:
			w.take(w.wait(), "AcquireAll", w.keys(2+w.random.IntN(2), true), wish{wait: true, extend: w.chance(30)})
		case draw < 69:
			w.take(operationLimit, "TryAcquireAll", w.keys(2, false), wish{})
		case draw < 80:
			w.do()
		case draw < 86:
			w.takeEach()
		default:
			w.look()
		}
		w.rest(15 * time.Millisecond)
	}
}

// take acquires keys as one lock, and uses it.
func (w *worker) take(limit time.Duration, method string, keys []string, how wish) {
	if how.worker, how.ttl = w.number, w.ttl(); how.extend {
		how.ttl = w.extendedTTL()
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	asked := w.ask(method, keys, how)
	l, err := w.service.acquire(ctx, keys, how)
	if h := w.settle(asked, how, l, err); h != nil {
		h.use()
		h.give()
	}
}

// share takes a shared key as a share in one of several ways, or as the whole lock.
func (w *worker) share() {
	wait := w.chance(45)
	groups := w.Shared[:len(w.Shared)-1]
	if !wait {
		groups = w.Shared
	}
	group := groups[w.random.IntN(len(groups))]
	key := group[w.random.IntN(len(group))]
	how := wish{wait: wait, extend: wait && w.chance(40), share: share{limitOf(key), 1}}
	if how.Limit > 1 && w.chance(25) {
		how.Permits = 2
	}
	if w.chance(3) { // this caller names another limit, or shares the key in another way
		how.Limit = (how.Limit + 2) % 4
		how.Permits = 1
	}
	name := map[bool]string{true: "Shared", false: "Permit"}[how.Limit == 0]
	if w.chance(25) {
		how.share, name = share{}, ""
	}
	switch {
	case wait && name != "" && w.chance(25):
		w.doWith([]string{key}, how.share, func(h *holding) { h.use() })
	case wait:
		w.take(w.wait(), "Acquire"+name, []string{key}, how)
	default:
		w.take(operationLimit, "TryAcquire"+name, []string{key}, how)
	}
}

func (w *worker) takeEach() {
	keys, how := w.keys(2, false), wish{ttl: w.ttl(), worker: w.number}
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	asked := make([]event, len(keys))
	for i := range keys {
		asked[i] = w.ask("TryAcquireEach", keys[i:i+1], how)
	}
	var held []*holding
	for i, a := range w.service.acquireEach(ctx, keys, how) {
		if h := w.settle(asked[i], how, a.lock, a.err); h != nil {
			held = append(held, h)
		}
	}
	for _, h := range held {
		h.use()
		h.give()
	}
}

// do holds a lock in a callback, sometimes for longer than the lease.
func (w *worker) do() {
	w.doWith(w.keys(1, true), share{}, func(h *holding) {
		if h.use(); w.chance(10) {
			h.linger(min(2*h.ttl, time.Second))
		}
	})
}

// rushHour is a time at which all workers want one key for a moment only. The time is the same in
// all processes. So the lock is handed over within a process many times in a row.
func rushHour() bool { return time.Duration(now())%(3*time.Second) < 300*time.Millisecond }

func (w *worker) rush() {
	if key := w.Shared[0][0]; w.chance(w.Sharing) {
		w.doWith([]string{key}, share{limitOf(key), 1}, (*holding).write)
		return
	}
	w.doWith(w.Keys[0][:1], share{}, (*holding).write)
}

func (w *worker) doWith(keys []string, wanted share, fn func(*holding)) {
	how := wish{ttl: w.extendedTTL(), wait: true, extend: true, worker: w.number, share: wanted}
	ctx, cancel := context.WithTimeout(context.Background(), w.wait())
	defer cancel()
	method := "Do"
	if !wanted.whole() {
		method = map[bool]string{true: "DoShared", false: "DoPermits"}[wanted.Limit == 0]
	}
	asked := w.ask(method, keys, how)
	var h *holding
	var ended instant
	err := w.service.do(ctx, keys[0], how, func(l lock) {
		h = w.settle(asked, how, l, nil)
		fn(h)
		ended = h.end(done)
	})
	if h == nil {
		w.settle(asked, how, nil, err)
		return
	}
	h.settleRelease(ended, err)
}

// ask notes that an acquisition begins.
func (w *worker) ask(method string, keys []string, how wish) event {
	e := event{Kind: asking, Lock: w.newLock(), Keys: keys, TTL: how.ttl, Share: how.share, Call: now()}
	w.record(e)
	e.Kind, e.Method = acquired, method
	return e
}

// settle notes how an acquisition ended, and returns the lock that the worker holds.
func (w *worker) settle(e event, how wish, l lock, err error) *holding {
	e.Return = now()
	if e.Outcome, e.Error = outcomeOf(err); err != nil {
		w.record(e)
		return nil
	}
	e.Fence, e.Deadline = l.Fence(), instantOf(l.Deadline())
	w.record(e)
	if w.chance(20) {
		l.Token() // a holder that asks for the token keeps the token from the next holder
	}
	return &holding{worker: w, lock: l, number: e.Lock, keys: e.Keys, ttl: how.ttl, extend: how.extend,
		until: e.Return}
}

func (w *worker) look() {
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	key, cached := w.keys(1, false), w.chance(50)
	if w.chance(w.Sharing) {
		group := w.Shared[w.random.IntN(len(w.Shared))]
		key = group[w.random.IntN(len(group)):][:1]
	}
	e := event{Kind: looked, Method: "Inspect", Keys: key, Call: now()}
	if cached {
		e.Method = "Locker.Check"
	}
	err := w.service.look(ctx, key[0], cached)
	e.Return = now()
	e.Outcome, e.Error = outcomeOf(err)
	w.record(e)
}

// keys draws n keys of one group, in any order, for a caller that waits or does not wait.
func (w *worker) keys(n int, wait bool) []string {
	groups := w.Keys[:len(w.Keys)-unwaited]
	if !wait && w.chance(60) {
		groups = w.Keys[len(groups):]
	}
	group := groups[min(w.random.IntN(len(groups)), w.random.IntN(len(groups)))]
	keys := make([]string, 0, n)
	for _, i := range w.random.Perm(len(group))[:min(n, len(group))] {
		keys = append(keys, group[i])
	}
	return keys
}

// extendedTTL is the TTL of nearly all locks with renewal. A waiter inherits a lease only
// if it wants the same TTL.
func (w *worker) extendedTTL() time.Duration {
	if w.chance(10) {
		return w.ttl()
	}
	return w.TTLs[len(w.TTLs)/2]
}

func (w *worker) ttl() time.Duration { return w.TTLs[w.random.IntN(len(w.TTLs))] }

// wait draws how long to wait for a held lock.
func (w *worker) wait() time.Duration {
	if w.chance(10) {
		return w.between(0, longestWait)
	}
	return w.between(5*time.Millisecond, 500*time.Millisecond)
}

func (w *worker) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *worker) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.random.Int64N(int64(most-least)))
}

func (w *worker) rest(most time.Duration) { time.Sleep(w.between(0, most)) }
