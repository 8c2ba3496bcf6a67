package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// timeline prints what happens: when, who, what. Several workers may use it at
// once.
type timeline struct {
	start time.Time

	mu  sync.Mutex
	out io.Writer
}

func newTimeline(out io.Writer) *timeline {
	return &timeline{start: time.Now(), out: out}
}

// heading opens a scene.
func (t *timeline) heading(text string) {
	t.print("\n%s\n", text)
}

// say adds a line about something that happens now.
func (t *timeline) say(actor, format string, args ...any) {
	t.sayAt(time.Now(), actor, format, args...)
}

// sayAt adds a line about something that happened at a time.
func (t *timeline) sayAt(at time.Time, actor, format string, args ...any) {
	t.print("%7.3fs  %-9s  %s\n", at.Sub(t.start).Seconds(), actor, fmt.Sprintf(format, args...))
}

func (t *timeline) print(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, format, args...)
}
