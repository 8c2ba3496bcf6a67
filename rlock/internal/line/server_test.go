package line

import (
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// server keeps the key for all processes.
type server struct {
	holders []holder
	queue   []standing
	counter uint64 // of fences
	shared  uint64 // the fence of those who have the key together
	score   int64
	since   clock.Instant // since when a process has had the key
}

// holder is who has the key, or a share of it.
type holder struct {
	token string
	end   clock.Instant
}

// standing is a place in the queue.
type standing struct {
	token string
	score int64
	since clock.Instant
}

// kind is what a message is.
type kind uint8

const (
	request kind = iota
	answer
	push
)

// call is what a request has the server do.
type call uint8

const (
	try       call = iota // take the key, but not before those in the queue
	join                  // take it, or a place in the queue
	heartbeat             // keep the place
	release               // free the key, or leave the queue
	requeue               // free the key, and join behind all others with another token
	handOver              // give the key another token
	question              // say whether another process waits, and reserve fences
	extension
)

// message is something on its way.
type message struct {
	kind    kind
	call    call
	process int
	person  int // who has sent the request, or -1: the process itself
	token   string
	again   string
	since   int64 // the score with which the token joins
	reserve int
	number  uint32 // of a question
	sent    clock.Instant
	settled bool // of a release: no other command of the token was under way

	granted bool // of an answer: the token has the key, or had it
	fence   uint64
	fences  int
	left    time.Duration
	score   int64
	waits   time.Duration
}

// reserves is how many fences the server reserves at most.
const reserves = 3

func (s *server) holds(token string) int {
	return slices.IndexFunc(s.holders, func(h holder) bool { return h.token == token })
}

func (s *server) place(token string) int {
	return slices.IndexFunc(s.queue, func(q standing) bool { return q.token == token })
}

// fits reports whether a token may have the key beside those who have it.
func (w *world) fits(token string) bool {
	mode := w.modes[processOf(token)]
	for _, h := range w.server.holders {
		if mode == Whole || w.modes[processOf(h.token)] != mode {
			return false
		}
	}
	return mode != Permits || len(w.server.holders) < w.limit
}

// gives the key to a token.
func (w *world) gives(token string) uint64 {
	s := &w.server
	if w.modes[processOf(token)] == Whole || len(s.holders) == 0 {
		s.counter++
		s.shared = s.counter
	}
	s.holders = append(s.holders, holder{token, w.now.After(ttl)})
	s.since = w.now
	return s.shared
}

// serve gives the key to those in the queue, in their order, while it may.
func (w *world) serve() {
	for s := &w.server; len(s.queue) > 0 && w.fits(s.queue[0].token); {
		token := s.queue[0].token
		s.queue = slices.Delete(s.queue, 0, 1)
		w.messages = append(w.messages, message{
			kind: push, process: processOf(token), person: -1, token: token,
			granted: true, fence: w.gives(token), left: ttl,
		})
	}
}

// expires takes the key from those whose lease is over.
func (w *world) expires() {
	w.server.holders = slices.DeleteFunc(w.server.holders, func(h holder) bool { return h.end <= w.now })
}

// waits is for how long another process has waited.
func (w *world) waits(p int) time.Duration {
	for _, q := range w.server.queue {
		if processOf(q.token) != p {
			return max(time.Duration(w.now-q.since), time.Millisecond)
		}
	}
	return 0
}

// frees takes the key from a token.
func (w *world) frees(token string) (had bool) {
	s := &w.server
	if i := s.holds(token); i >= 0 {
		s.holders = slices.Delete(s.holders, i, i+1)
		return true
	}
	return false
}

// confirm lets a token that has the key have it for longer.
func (w *world) confirm(m *message) bool {
	s := &w.server
	i := s.holds(m.token)
	if i < 0 {
		return false
	}
	s.holders[i].end = max(s.holders[i].end, w.now.After(ttl))
	m.granted, m.left, m.fence = true, time.Duration(s.holders[i].end-w.now), s.shared
	if w.modes[m.process] == Whole {
		s.counter++
		m.fence = s.counter
	}
	return true
}

// joins gives a token a place, and what is free to those who wait. It answers where the token is then.
func (w *world) joins(m *message, token string, inserts bool, since int64) {
	s := &w.server
	if inserts && s.place(token) < 0 {
		if since == 0 {
			s.score++
			since = s.score
		}
		s.queue = append(s.queue, standing{token, since, w.now})
		slices.SortStableFunc(s.queue, func(x, y standing) int { return int(x.score - y.score) })
	}
	sent := len(w.messages)
	w.serve()
	for i := sent; i < len(w.messages); i++ {
		if own := w.messages[i]; own.token == token { // it needs no message
			m.granted, m.fence, m.left = true, own.fence, ttl
			w.messages = slices.Delete(w.messages, i, i+1)
			break
		}
	}
	if i := s.place(token); i >= 0 {
		m.score = s.queue[i].score
	}
}

// executes a request, and returns its answer.
func (w *world) executes(m message) message {
	w.expires()
	s := &w.server
	m.kind = answer
	switch m.call {
	case try:
		if w.confirm(&m) {
			break
		}
		if w.serve(); len(s.queue) == 0 && w.fits(m.token) {
			m.granted, m.fence, m.left = true, w.gives(m.token), ttl
		}
	case join, heartbeat:
		if !w.confirm(&m) {
			w.joins(&m, m.token, m.call == join, m.since)
		}
	case release:
		if m.granted = w.frees(m.token); !m.granted {
			s.queue = slices.DeleteFunc(s.queue, func(q standing) bool { return q.token == m.token })
		}
		w.serve()
	case requeue:
		if w.frees(m.token) {
			m.fences = 1 // it was freed
			w.joins(&m, m.again, true, 0)
		} else if i := s.holds(m.again); i >= 0 {
			m.fences = 1
		}
	case handOver:
		i := s.holds(m.token)
		if i < 0 {
			i = s.holds(m.again)
		}
		if i >= 0 {
			s.holders[i] = holder{m.again, w.now.After(ttl)}
			m.granted, m.left = true, ttl
			if n := min(m.reserve, reserves); n > 0 { // otherwise the caller wants no fence
				m.fence, m.fences = s.counter+1, n
				s.counter += uint64(n)
			}
		}
	case question:
		if s.holds(m.token) >= 0 {
			n := min(m.reserve, reserves)
			m.granted, m.fence, m.fences = true, s.counter+1, n
			s.counter += uint64(n)
		}
	case extension:
		if i := s.holds(m.token); i >= 0 {
			s.holders[i].end = max(s.holders[i].end, w.now.After(ttl))
			m.granted, m.left = true, time.Duration(s.holders[i].end-w.now)
		}
	}
	m.waits = w.waits(m.process)
	return m
}
