package env

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// Admin returns an Admin of the server of a Locker. Its keys are those of the server, with the prefix of the
// Locker.
func Admin(l *rlock.Locker) *rlockadmin.Admin {
	admin, err := rlockadmin.New(l.Client())
	if err != nil {
		panic(err)
	}
	return admin
}

// Inspect asks the server of a Locker about a lock.
func Inspect(t testing.TB, l *rlock.Locker, key string) rlockadmin.State {
	t.Helper()
	state, err := Admin(l).Inspect(t.Context(), key)
	require.NoError(t, err)
	return state
}

// HolderOf asks the server of a Locker for the holder of a whole lock; the zero Holder if the lock is free.
func HolderOf(t testing.TB, l *rlock.Locker, key string) rlockadmin.Holder {
	t.Helper()
	state := Inspect(t, l, key)
	if state.Mode == rlockadmin.Free {
		require.Empty(t, state.Holders)
		return rlockadmin.Holder{}
	}
	require.Equal(t, rlockadmin.Exclusive, state.Mode, key)
	require.Len(t, state.Holders, 1, key)
	return state.Holders[0]
}
