package wire

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Mode says how callers wait for a key that another process has.
type Mode uint8

// The modes. The first refusal ends Auto for good.
const (
	Auto   Mode = iota // Queued, or Polling once the server has refused the user a command for the queue
	Queued             // in the queue that the server keeps for a key
	// without a queue: a caller tries again when the server tells of a change, and from time to time
	Polling
)

// mode is the Mode of all calls for one client.
type mode struct {
	chosen  Mode
	refusal atomic.Pointer[error] // the refusal that has ended Auto; nil: none has
}

func (m *mode) queued() bool {
	return m.chosen == Queued || m.chosen == Auto && m.refusal.Load() == nil
}

// goesWithout reports whether a refused call is repeated without the queue. It is if the user lacks a
// right, or if the slot moves. While a slot moves, a script runs only where all its keys are. The script
// also names the start of the channel names, which is a key that no node has.
func (m *mode) goesWithout(refusal error) bool {
	return m.chosen == Auto && Forbidden(refusal) || movesNow(refusal)
}

// went notes that a refused call has worked without the queue. If the user may not even do that, the key is
// forbidden, and other keys keep their queues.
//
// A release with the queue names the fence counter, to pass the key on. A release without the queue does
// not name the counter. So if it works, the refused key may be the counter.
func (m *mode) went(refusal error, released bool) {
	if Forbidden(refusal) && !(released && ofOneKey(refusal)) {
		m.refusal.CompareAndSwap(nil, &refusal)
	}
}

// withQueue makes a call that uses queues. If a server refuses the queue, it makes the call without queues.
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

// Forbidden reports whether the user lacked the right to run a command.
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
	// Redis 7.0 and Valkey have different words of their own for the commands of a script.
	text = server.Error()
	return text, strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure") ||
		strings.Contains(text, "user executing the script can't")
}

// ofOneKey reports whether the user lacks the right to a key. Servers do not say to which key. A refusal of
// a command contains the user's name, which may be any word, such as key.
func ofOneKey(refusal error) bool {
	text, is := forbidden(refusal)
	return is && !strings.Contains(text, " run ") && strings.Contains(text, " key")
}
