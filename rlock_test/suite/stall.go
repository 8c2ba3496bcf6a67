package main

import (
	"sync"
	"time"
)

// A stall is a time in which this machine did not run what was ready to run.
type stall struct {
	began time.Time
	took  time.Duration
}

// These values define a machine that stands still. They come from windows of five seconds while the tests
// ran:
//
//   - On two processors of its own, the machine had at most one pause. It took up to 126 ms, which is 3 % of
//     the time.
//   - Where the host took 35 to 75 % of the processors, the machine had pauses of 200 to 1,900 ms. They took
//     5 to 80 % of the time.
const (
	leastStall = 100 * time.Millisecond // shorter stalls do not count
	longStall  = 250 * time.Millisecond // one such stall is enough
	share      = 20                     // otherwise, one part in so many of the time must be stalls
)

// watch records the stalls of this machine.
type watch struct {
	began  time.Time
	mu     sync.Mutex
	stalls []stall
	stop   chan struct{}
	done   chan struct{}
}

func newWatch() *watch {
	return &watch{began: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
}

// run records stalls until end.
func (w *watch) run() {
	defer close(w.done)
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for last, ends := w.began, false; !ends; {
		select {
		case <-w.stop:
			ends = true
		case <-tick.C:
		}
		now := time.Now()
		w.note(last, now.Sub(last)-pause)
		last = now
	}
}

func (w *watch) note(began time.Time, took time.Duration) {
	if took < leastStall {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls = append(w.stalls, stall{began, took})
}

func (w *watch) end() {
	close(w.stop)
	<-w.done
}

// between returns how long the machine stood still between two times, in all. It returns 0 if the sum is no
// more than on a machine that runs.
func (w *watch) between(from, to time.Time) (sum time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	long := false
	for _, s := range w.stalls {
		if s.began.Before(to) && s.began.Add(s.took).After(from) {
			sum += s.took
			long = long || s.took >= longStall
		}
	}
	if long || sum > to.Sub(from)/share {
		return sum
	}
	return 0
}
