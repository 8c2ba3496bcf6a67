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

// leastStall is the shortest stall that counts. On two cores that run nothing but the tests, the
// longest was 126 ms. On a shared machine whose host took two thirds of the processors, there was
// one of 200 to 1,900 ms in each five seconds.
const leastStall = 250 * time.Millisecond

// watch notes the stalls of this machine.
type watch struct {
	mu     sync.Mutex
	stalls []stall
	stop   chan struct{}
	done   chan struct{}
}

func newWatch() *watch { return &watch{stop: make(chan struct{}), done: make(chan struct{})} }

// run notes stalls until end.
func (w *watch) run() {
	defer close(w.done)
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for last, ends := time.Now(), false; !ends; {
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

// between returns for how long the machine stood still from one time to another, in all.
func (w *watch) between(from, to time.Time) (sum time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stalls {
		if s.began.Before(to) && s.began.Add(s.took).After(from) {
			sum += s.took
		}
	}
	return sum
}
