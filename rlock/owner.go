package rlock

import "github.com/rlock-go/toolkit/rlock/internal/remote"

// WithOwner has the holder say who it is, for people who ask why a key is locked:
// State.Owner of Inspect and Check shows the text. It is 1 to 256 bytes of printable
// UTF-8, such as DefaultOwner gives, and no secret: whoever may read the key may read it.
//
// The text is a part of the token, behind a space. So it is there from the moment in which
// the lock is held, for as long as the lock is, and costs no command and no key. Locks of
// one Locker that have the same text can hand their lease on to each other as those without
// one do.
//
// A call with WithToken has the token as it is given: it cannot have this option as well,
// and goes before a text that is a default of the Locker.
func WithOwner(text string) SharedOption {
	return sharedOption(func(s *settings) error {
		s.owner = text
		s.given.owner = true
		if wrong := remote.WrongOwner(text); wrong != "" {
			return invalid("WithOwner", wrong)
		}
		return nil
	})
}

// DefaultOwner returns a text for WithOwner that tells the host, the process and
// the program: "web-3 pid 4711 importer".
func DefaultOwner() string { return remote.ThisProcess() }

// mint returns a new token for the lock.
func (l *Lock) mint() string { return l.claim.NewToken(l.set.owner) }
