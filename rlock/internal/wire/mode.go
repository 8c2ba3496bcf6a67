package wire

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Mode says how callers wait for what another process has.
type Mode uint8

// The modes. The first refusal ends Auto for good.
const (
	Auto    Mode = iota // Queued, or Polling once the user was refused a command for the queue
	Queued              // in the queue that the server keeps for a key
	Polling             // without a queue: they try again when they are told, and from time to time
)

// mode is the Mode of all calls for one client.
type mode struct {
	chosen  Mode
	refusal atomic.Pointer[error] // that has ended Auto; nil: none has
}

// queued reports whether calls use the queues.
func (m *mode) queued() bool {
	return m.chosen == Queued || m.chosen == Auto && m.refusal.Load() == nil
}

// goesWithout reports whether a call that a server has refused is repeated without the queue: the user lacks
// a right, or the slot moves. While it does, a script runs only where all its keys are, and the name that
// channels start with is no key that can be anywhere.
func (m *mode) goesWithout(refusal error) bool {
	return m.chosen == Auto && Forbidden(refusal) || movesNow(refusal)
}

// went notes that a call has worked without the queue that was refused with it. If the user may not even do
// that, it is the key that is forbidden, and other keys have their queues. A release without the queue names
// no fence counter, which it names with the queue, to pass the key on: then that may be the refused key.
func (m *mode) went(refusal error, released bool) {
	if Forbidden(refusal) && !(released && ofOneKey(refusal)) {
		m.refusal.CompareAndSwap(nil, &refusal)
	}
}

// withQueue makes a call that uses queues. If a server refuses it for that, it makes the call without them.
func withQueue[T any](m *queueing, releases bool, with, without func() (T, error)) (T, error) {
	value, refusal := with()
	if !m.goesWithout(refusal) {
		return value, refusal
	}
	value, err := without()
	if err == nil {
		m.went(refusal, releases)
	}
	return value, err
}

func movesNow(refusal error) bool {
	if refusal == nil || contextEnded(refusal) {
		return false
	}
	var server *rueidis.RedisError
	return errors.As(refusal, &server) && server.IsTryAgain()
}

// Forbidden reports whether the user lacked a right to run a command.
func Forbidden(err error) bool {
	_, is := forbidden(err)
	return is
}

// forbidden is Forbidden, and returns the words of the server.
func forbidden(err error) (text string, is bool) {
	if err == nil || contextEnded(err) {
		return "", false
	}
	var server *rueidis.RedisError
	if !errors.As(err, &server) {
		return "", false
	}
	// Redis 7.0 has words of its own for the commands of a script, and Valkey others.
	text = server.Error()
	return text, strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure") ||
		strings.Contains(text, "user executing the script can't")
}

// ofOneKey reports whether the user lacks the right to a key. Which one, servers do not say. Only what is
// said of a command has a name of the user's in it, which may be any word.
func ofOneKey(refusal error) bool {
	text, is := forbidden(refusal)
	return is && !strings.Contains(text, " run ") && strings.Contains(text, " key")
}
