package backends

import (
	"testing"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmem"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestLoccoInMemory(t *testing.T) {
	t.Parallel()
	Locco(t, func(t *testing.T) (*rlock.Locker, *rlock.Locker) {
		b := rlockmem.New()
		return Open(t, b), Open(t, b)
	})
}

func TestLoccoOnRedis(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		Locco(t, func(t *testing.T) (*rlock.Locker, *rlock.Locker) {
			server := e.Start(t)
			return env.OpenOn(t, server), env.OpenOn(t, server)
		})
	})
}

// four is a backend of four methods.
type four struct{ rlock.Backend }

// A backend of its user's own has four methods.
func TestLoccoOnABackendOfFourMethods(t *testing.T) {
	t.Parallel()
	Locco(t, func(t *testing.T) (*rlock.Locker, *rlock.Locker) {
		b := four{rlockmem.New()}
		return Open(t, b), Open(t, b)
	})
}
