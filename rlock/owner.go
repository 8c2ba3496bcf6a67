package rlock

import "github.com/rlock-go/toolkit/rlock/internal/remote"

// WithOwner has the holder say who it is: State.Owner shows the text to those who ask why a key is
// locked. It is 1 to 256 bytes of printable UTF-8, such as DefaultOwner gives, and no secret. It is a
// part of the token, so it is there for as long as the lock is held, and costs no command and no key. A
// call cannot have it together with WithToken, which overrides a text that is a default of the Locker.
func WithOwner(text string) CommonOption {
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
