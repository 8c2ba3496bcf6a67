package env

import (
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// admins has the Admin of each Locker that a test has asked for one. An Admin stays until the garbage
// collector removes the Locker.
var admins sync.Map

// Admin returns the Admin of the server of a Locker. The Admin takes keys as the server has them, with the
// prefix of the Locker.
func Admin(l *rlock.Locker) *rlockadmin.Admin {
	key := weak.Make(l)
	if admin, is := admins.Load(key); is {
		return admin.(*rlockadmin.Admin)
	}
	admin, err := rlockadmin.New(l.Client())
	if err != nil {
		panic(err)
	}
	kept, had := admins.LoadOrStore(key, admin)
	if !had {
		runtime.AddCleanup(l, func(key weak.Pointer[rlock.Locker]) { admins.Delete(key) }, key)
	}
	return kept.(*rlockadmin.Admin)
}

// Inspect asks the server of a Locker about a lock.
func Inspect(t testing.TB, l *rlock.Locker, key string) rlockadmin.State {
	t.Helper()
	state, err := Admin(l).Inspect(t.Context(), key)
	require.NoError(t, err)
	return state
}

// HolderOf asks the server of a Locker for the holder of a whole lock. It returns the zero Holder if the lock
// is free.
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
