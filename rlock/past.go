package rlock

import "time"

// past remembers the last few keys that this process has shared with others and
// that nobody here waits for any more, so that whoever comes back at once does not
// forget its courtesy.
type past struct {
	keys [4]string
	line [4]*line
	at   [4]instant
	next int
}

// memory is how long a past turn counts.
const memory = 100 * time.Millisecond

func (p *past) remember(key string, l *line) {
	p.keys[p.next], p.line[p.next], p.at[p.next] = key, l, now()
	p.next = (p.next + 1) % len(p.keys)
}

// recall returns the line of a key that was released a moment ago, or nil.
func (p *past) recall(key string) *line {
	for i, known := range p.keys {
		if known != key {
			continue
		}
		line, at := p.line[i], p.at[i]
		p.keys[i], p.line[i] = "", nil
		if line != nil && time.Duration(now()-at) < memory {
			return line
		}
	}
	return nil
}
