package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// timeline prints when something happens, who does it, and what happens. Goroutines may share a timeline.
type timeline struct {
	start time.Time

	mu  sync.Mutex
	out io.Writer
}

func newTimeline(out io.Writer) *timeline {
	return &timeline{start: time.Now(), out: out}
}

// heading prints the heading of a scene.
func (t *timeline) heading(format string, args ...any) {
	t.print("\n"+format+"\n", args...)
}

// say adds a line about something that happens now.
func (t *timeline) say(actor, format string, args ...any) {
	t.sayAt(time.Now(), actor, format, args...)
}

// sayAt adds a line about something that happened at the time at.
func (t *timeline) sayAt(at time.Time, actor, format string, args ...any) {
	t.print("%7.3fs  %-15s %s\n", at.Sub(t.start).Seconds(), actor, fmt.Sprintf(format, args...))
}

func (t *timeline) print(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, format, args...)
}

// wait waits for d, unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
