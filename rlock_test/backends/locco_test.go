package backends

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmem"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// withBackend returns a Locker of a backend.
func withBackend(t *testing.T, b rlock.Backend, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	l, err := rlock.NewWithBackend(b, opts...)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func TestLoccoInMemory(t *testing.T) {
	t.Parallel()
	Locco(t, func(t *testing.T) (*rlock.Locker, *rlock.Locker) {
		b := rlockmem.New()
		return withBackend(t, b), withBackend(t, b)
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
		return withBackend(t, b), withBackend(t, b)
	})
}
