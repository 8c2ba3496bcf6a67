package rlocktest

import (
	"bytes"
	"crypto/sha1" // that is how Redis names scripts
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rlock-go/toolkit/gen"
)

// Match says which commands a fault is for. It is given the words of a command, the
// name in capital letters and the rest as the client sent them, and is called while the
// command waits, so it must not use the server.
type Match func(words []string) bool

// Command matches commands of that name, such as "EXEC".
func Command(name string) Match {
	return func(words []string) bool { return strings.EqualFold(words[0], name) }
}

// Acquires matches calls that ask for a lock of one key, or for a place among those who wait for it.
func Acquires(words []string) bool {
	return Script(gen.AcquireSHA1)(words) || Script(gen.WaitSHA1)(words) || Script(gen.AcquireManySHA1)(words)
}

// Releases matches calls that release locks, or give up a place among those who wait.
func Releases(words []string) bool {
	return Script(gen.ReleaseSHA1)(words) || Script(gen.ReleaseManySHA1)(words) || Script(gen.RequeueSHA1)(words)
}

// Script matches calls of the script with that SHA-1, by its text or by the SHA-1. The
// bindings of package gen have the SHA-1 of each script, such as gen.ExtendSHA1.
func Script(sha string) Match {
	return func(words []string) bool {
		switch {
		case len(words) < 2:
			return false
		case words[0] == "EVALSHA" || words[0] == "EVALSHA_RO":
			return strings.EqualFold(words[1], sha)
		case words[0] == "EVAL" || words[0] == "EVAL_RO":
			sum := sha1.Sum([]byte(words[1]))
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		}
		return false
	}
}

// Key matches commands and scripts that are given the key as one of theirs.
func Key(key string) Match {
	return func(words []string) bool { return slices.Contains(keysOf(words), key) }
}

// FailNext refuses the next command that matches: the server does not run it, and
// answers with an error of that text, such as "LOADING Redis is loading the dataset in
// memory". Each call refuses one command. The channel is closed when that has happened.
// A command of a transaction that is refused makes EXEC fail, as in Redis. FailNext panics if
// match is nil or the text is empty.
func (s *Server) FailNext(match Match, text string) (failed <-chan struct{}) {
	switch {
	case match == nil:
		panic("rlocktest: FailNext: the match is nil")
	case text == "":
		panic("rlocktest: FailNext: the text is empty; say what the server answers, or use LoseReply")
	}
	return s.faults.add(match, text)
}

// LoseReply loses the reply to the next command that matches: the server runs it and
// cuts the connection before it answers, so the client cannot know whether it ran. The
// answer NOSCRIPT to a script's SHA-1 is passed on, because nothing was run; the reply
// to the script's text is lost then. Of a transaction, match EXEC. Each call loses one
// reply. The channel is closed when that has happened. LoseReply panics if match is nil.
func (s *Server) LoseReply(match Match) (lost <-chan struct{}) {
	if match == nil {
		panic("rlocktest: LoseReply: the match is nil")
	}
	return s.faults.add(match, "")
}

// Silence makes the network swallow everything in both directions until lift is called:
// commands do not run, nothing is answered or pushed, and no connection is closed. New
// connections are accepted, and silent too. When it is lifted, the connections that have
// lost something are closed, because what follows a gap would be taken for something
// else; the others go on. Silence may be called several times, and ends with the last
// lift; a lift may be called again.
func (s *Server) Silence() (lift func()) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	s.network.silences++
	return sync.OnceFunc(func() {
		s.network.mu.Lock()
		s.network.silences--
		over := s.network.silences == 0
		s.network.mu.Unlock()
		if over {
			s.network.cut(func(w *wire) bool { return w.lost })
		}
	})
}

// Delay makes everything that clients send from now on arrive d later, so that each
// answer takes d longer. The order is kept, and any number of commands can be on their
// way at once. Delay(0) ends it.
func (s *Server) Delay(d time.Duration) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	s.network.delay = d
}

// Stop ends the server as a crash does: connections break, and no new one is accepted
// until Restart. TTLs go on running down.
func (s *Server) Stop() { s.network.stop() }

// Data says what a server that is restarted has of what it had.
type Data int

const (
	KeepData Data = iota // all of it, as with an append-only file
	LoseData             // nothing, as without persistence
)

// Restart stops the server if it runs, and starts it again on the same address. Like
// every Redis server it has forgotten the scripts. The error is that the address is not
// free any more, or that the server was told to refuse everybody.
func (s *Server) Restart(data Data) error {
	s.network.stop()
	err := s.tracker.command("SCRIPT", "FLUSH")
	if err == nil && data == LoseData {
		err = s.tracker.command("FLUSHALL")
	}
	return errors.Join(err, s.network.start())
}

// faults are those that wait for a command.
type faults struct {
	mu    sync.Mutex
	queue []*fault
}

type fault struct {
	match    Match
	refusal  string // empty: the reply is lost
	happened chan struct{}
}

func (f *faults) add(match Match, refusal string) <-chan struct{} {
	one := &fault{match, refusal, make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, one)
	return one.happened
}

// take returns the first fault that is for a command, nil if there is none.
func (f *faults) take(argv []string) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.queue, func(one *fault) bool { return one.match(argv) })
	if i < 0 {
		return nil
	}
	one := f.queue[i]
	f.queue = slices.Delete(f.queue, i, i+1)
	return one
}

// putBack has a fault wait for another command, before all others.
func (f *faults) putBack(one *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = slices.Insert(f.queue, 0, one)
}

// serve runs one command of a client, unless a fault keeps it from that.
func (s *Server) serve(w *wire, p *server.Peer, argv []string) {
	one := s.faults.take(argv)
	switch {
	case one == nil:
		s.tracker.serve(p, argv)
		return
	case one.refusal != "":
		s.tracker.refuse(p, argv, one.refusal)
	default:
		p.Flush() // what comes before it arrives
		w.keep()
		s.tracker.serve(p, argv)
		p.Flush()
		if reply := w.kept(); bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
			s.faults.putBack(one)
			p.WriteRaw(string(reply))
			return
		}
		close(one.happened) // before the client can know
		_ = w.Close()
		return
	}
	close(one.happened)
}
