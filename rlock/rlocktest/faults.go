package rlocktest

import (
	"bytes"
	"crypto/sha1" // Redis names scripts by their SHA-1
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rlock-go/toolkit/gen"
)

// Match reports whether a fault applies to a command. words has the name in capital letters, and then the
// words as the client sent them. The command waits during the call, so Match must not use the server.
type Match func(words []string) bool

// Command matches commands with that name, such as "EXEC".
func Command(name string) Match {
	return func(words []string) bool { return strings.EqualFold(words[0], name) }
}

// Acquires matches calls that ask for a lock of one key, or for a place in its queue.
func Acquires(words []string) bool {
	return Script(gen.AcquireSHA1)(words) || Script(gen.WaitSHA1)(words) || Script(gen.AcquireManySHA1)(words)
}

// Releases matches calls that release locks, or give up a place in a queue.
func Releases(words []string) bool {
	return Script(gen.ReleaseSHA1)(words) || Script(gen.ReleaseManySHA1)(words) || Script(gen.RequeueSHA1)(words)
}

// Script matches calls of the script with that SHA-1, by its text or by the SHA-1. Package gen has the SHA-1
// of each script, such as gen.ExtendSHA1.
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

// Key matches commands and scripts that have the key among their keys.
func Key(key string) Match {
	return func(words []string) bool { return slices.Contains(keysOf(words), key) }
}

// FailNext refuses the next command that matches. The server does not run it, and answers with the error
// text, such as "LOADING Redis is loading the dataset in memory". Each call refuses one command, and closes
// the channel after that. A refused command of a transaction makes EXEC fail, as in Redis. FailNext panics if
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

// LoseReply loses the reply to the next command that matches. The server runs the command and cuts the
// connection before the answer, so the client cannot know whether the command ran. The answer NOSCRIPT to a
// script's SHA-1 gets through, because nothing ran; then the reply to the script's text is lost. For a
// transaction, match EXEC. Each call loses one reply, and closes the channel after that. LoseReply panics if
// match is nil.
func (s *Server) LoseReply(match Match) (lost <-chan struct{}) {
	if match == nil {
		panic("rlocktest: LoseReply: the match is nil")
	}
	return s.faults.add(match, "")
}

// Silence makes the network swallow everything in both directions, until a call of lift. No command runs, no
// answer or push arrives, and no connection closes. The network accepts new connections, which are silent
// too. lift closes each connection that has lost data, because the client would misread the data after a gap.
// Other connections go on. A test may call Silence several times: the last lift ends it. A second call of the
// same lift does nothing.
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

// Delay delays everything that clients send from now on by d, so each answer takes d longer. The order stays,
// and any number of commands can be on their way at the same time. Delay(0) ends the delay.
func (s *Server) Delay(d time.Duration) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	s.network.delay = d
}

// Stop ends the server like a crash: connections break, and the server accepts no new ones until Restart.
// TTLs run down meanwhile.
func (s *Server) Stop() { s.network.stop() }

// Data says which data a restarted server has.
type Data int

const (
	KeepData Data = iota // all data, as with an append-only file
	LoseData             // no data, as without persistence
)

// Restart stops the server if it runs, and starts it again on the same address. Like every Redis server it
// has forgotten the scripts. Restart returns an error if the address is in use, or if the server refuses
// every command, as after SetError.
func (s *Server) Restart(data Data) error {
	s.network.stop()
	err := s.tracker.command("SCRIPT", "FLUSH")
	if err == nil && data == LoseData {
		err = s.tracker.command("FLUSHALL")
	}
	return errors.Join(err, s.network.start())
}

// faults has the faults that wait for a command.
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

// take returns the first fault that applies to a command, or nil.
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

// putBack puts a fault back, before all others.
func (f *faults) putBack(one *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = slices.Insert(f.queue, 0, one)
}

// serve runs one command of a client, unless a fault prevents that.
func (s *Server) serve(w *wire, p *server.Peer, argv []string) {
	one := s.faults.take(argv)
	switch {
	case one == nil:
		s.tracker.serve(p, argv)
		return
	case one.refusal != "":
		s.tracker.refuse(p, argv, one.refusal)
	default:
		p.Flush() // earlier answers arrive
		w.keep()
		s.tracker.serve(p, argv)
		p.Flush()
		if reply := w.kept(); bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
			s.faults.putBack(one)
			p.WriteRaw(string(reply))
			return
		}
		close(one.happened) // before the client can notice
		_ = w.Close()
		return
	}
	close(one.happened)
}
