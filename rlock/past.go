package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// past remembers the last few keys that this process has shared with others and
// that nobody here waits for any more, so that whoever comes back at once neither
// forgets to back off nor loses the rest of its turn.
type past struct {
	keys [4]string
	turn [4]turn
	at   [4]clock.Instant
	next int
}

// memory is how long a past turn counts.
const memory = 100 * time.Millisecond

func (p *past) remember(key string, l *line, set *settings) {
	t := l.turn
	if t.over(set.turnMost, set.turnTime) {
		t.end()
	}
	t.spare, t.block = 0, 0 // the key is free: others get larger fences
	p.keys[p.next], p.turn[p.next], p.at[p.next] = key, t, clock.Now()
	p.next = (p.next + 1) % len(p.keys)
}

// recall returns the line of a key that was freed a moment ago, or nil.
func (p *past) recall(key string, set *settings) *line {
	for i, known := range p.keys {
		if known != key {
			continue
		}
		p.keys[i] = ""
		t := p.turn[i]
		if time.Duration(clock.Now()-p.at[i]) >= memory {
			return nil
		}
		if t.began != 0 && t.over(set.turnMost, set.turnTime) {
			t.end()
		}
		return &line{turn: t}
	}
	return nil
}
