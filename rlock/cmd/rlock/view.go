package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// view is what a person is told who waits for a lock.
type view struct {
	want     string // what one waits for
	waited   time.Duration
	patience time.Duration    // after which one gives up; 0: never
	silent   time.Duration    // for which the server has not answered; 0: it answers
	state    rlockadmin.State // of the lock, Remaining as of now
	place    int              // in its queue; 0: not known
	held     time.Duration    // for which the holder was watched
	extended bool             // by the holder, while it was watched
}

// shortest is to how many columns a name is shortened at most: enough to tell most of them apart.
const shortest = 12

// line tells it in at most width columns. What is needed least gives way first: since when the holder was
// watched and words that go without saying, then the end of the holder's name, and then that of the key.
func (v view) line(width int) string {
	name := v.holder()
	if line := v.words(v.want, name, true); columns(line) <= width {
		return line
	}
	name = strings.TrimPrefix(name, "held ")
	name = shorten(name, columns(name)-columns(v.words(v.want, name, false))+width)
	want := shorten(v.want, columns(v.want)-columns(v.words(v.want, name, false))+width)
	return cut(v.words(want, name, false), width)
}

func (v view) words(want, name string, all bool) string {
	var b strings.Builder
	if all {
		b.WriteString("waiting for ")
	}
	b.WriteString(want + ", " + brief(v.waited.Truncate(time.Second)))
	if v.patience > 0 {
		b.WriteString(" of " + brief(v.patience))
	}
	if v.silent > 0 {
		b.WriteString("; the server has not answered for " + brief(v.silent))
		return b.String()
	}
	switch waiters := len(v.state.Waiters); {
	case v.place > 0:
		fmt.Fprintf(&b, ", place %d/%d", v.place, waiters)
	case waiters > 0:
		fmt.Fprintf(&b, ", %d waiting", waiters)
	}
	if v.state.Mode == rlockadmin.Free {
		return b.String()
	}
	b.WriteString("; " + name + ", " + left(v.state.Remaining))
	if v.extended {
		b.WriteString(", extended")
	}
	if all && v.held >= time.Second {
		b.WriteString(", for over " + brief(v.held))
	}
	return b.String()
}

// brief shows a length of time in whole seconds, from one second on.
func brief(d time.Duration) string {
	if d >= time.Second {
		d = d.Truncate(time.Second)
	}
	text := d.Truncate(time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// holder says who has the lock.
func (v view) holder() string {
	switch {
	case v.state.Mode == rlockadmin.Free:
		return ""
	case v.state.Mode != rlockadmin.Exclusive:
		return "in use: " + sharers(v.state)
	case v.state.Holders[0].Owner == "":
		return "held"
	}
	return "held by " + v.state.Holders[0].Owner
}

// placeOf returns the place of the only one in the queue who says to be the owner, 0 if nobody or several do.
func placeOf(owner string, state rlockadmin.State) (place int) {
	for i, w := range state.Waiters {
		switch {
		case owner == "" || w.Owner != owner:
		case place > 0:
			return 0
		default:
			place = i + 1
		}
	}
	return place
}

// shorten cuts a name to a width, but not to less than people need to tell it from others.
func shorten(name string, width int) string { return cut(name, max(width, shortest)) }

const ellipsis = "..."

// cut returns as much of a text as has room in so many columns.
func cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	const room = len(ellipsis)
	used := 0
	for i, r := range text {
		if used += columnsOf(r); used > width-room {
			return text[:i] + ellipsis[:min(max(width, 0), room)]
		}
	}
	return text
}

// columns returns how wide a text is at most.
func columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// columnsOf takes every letter beyond ASCII for a wide one: a line that is too short is better than one that
// is broken.
func columnsOf(r rune) int {
	if r < 0x80 {
		return 1
	}
	return 2
}

// since returns the state with what is left of the lease when some time has passed.
func since(state rlockadmin.State, passed time.Duration) rlockadmin.State {
	if state.Remaining != rlock.NoExpiry {
		state.Remaining = max(state.Remaining-passed, 0)
	}
	return state
}
