package adapter_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	adapter "github.com/rlock-go/toolkit/rlock_test/examples/certmagic"
)

// Two servers share a directory, and the locks of a Redis or Valkey.
func Example() {
	server, err := rlocktest.Open() // yours is a Redis or Valkey
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	directory, err := os.MkdirTemp("", "certificates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)

	ctx := context.Background()
	var storages []certmagic.Storage
	for range 2 { // each stands for a process, and has its storage in certmagic.Default.Storage
		locker, err := rlock.Open(server.Option(), rlock.WithPrefix("certmagic:"))
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		storages = append(storages, adapter.New(&certmagic.FileStorage{Path: directory}, locker))
	}
	if err := storages[0].Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	got := make(chan string)
	go func() { // waits, and then sees that the work is done
		if err := storages[1].Lock(ctx, "issue_cert_example.com"); err != nil {
			log.Fatal(err)
		}
		certificate, err := storages[1].Load(ctx, "example.com.crt")
		if err != nil {
			log.Fatal(err)
		}
		if err := storages[1].Unlock(ctx, "issue_cert_example.com"); err != nil {
			log.Fatal(err)
		}
		got <- string(certificate)
	}()
	if err := storages[0].Store(ctx, "example.com.crt", []byte("a certificate")); err != nil {
		log.Fatal(err)
	}
	if err := storages[0].Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-got)
	// Output: a certificate
}

// newStorage returns a storage with a Locker of its own, as another process has it.
func newStorage(t *testing.T, server *rlocktest.Server, opts ...rlock.LockerOption) *adapter.Storage {
	t.Helper()
	locker, err := rlock.Open(server.Option(), opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return adapter.New(&certmagic.FileStorage{Path: t.TempDir()}, locker)
}

// lock calls Lock in a goroutine of its own, and sends what it returns.
func lock(ctx context.Context, s *adapter.Storage, name string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Lock(ctx, name) }()
	return done
}

// Two storages exclude each other for as long as the work takes, which is longer than a lease.
func TestStoragesExcludeEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		one, other := newStorage(t, server), newStorage(t, server)
		require.NoError(t, one.Lock(t.Context(), "name"))
		require.NoError(t, other.Lock(t.Context(), "another name"))

		waits := lock(t.Context(), other, "name")
		server.Advance(10 * rlock.DefaultTTL)
		require.Empty(t, waits)

		require.NoError(t, one.Unlock(t.Context(), "name"))
		require.NoError(t, <-waits)
		require.NoError(t, other.Unlock(t.Context(), "name"))
		require.NoError(t, other.Unlock(t.Context(), "another name"))
	})
}

// So do two goroutines of one process.
func TestCallersOfOneStorageExcludeEachOther(t *testing.T) {
	t.Parallel()
	storage := newStorage(t, rlocktest.Start(t))
	inside, done := 0, make(chan error, 8)
	for range 8 {
		go func() {
			done <- func() error {
				for range 20 {
					if err := storage.Lock(t.Context(), "name"); err != nil {
						return err
					}
					inside++ // the race detector sees a second one here
					if inside != 1 {
						return fmt.Errorf("%d are inside", inside)
					}
					inside--
					if err := storage.Unlock(t.Context(), "name"); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	require.Error(t, storage.Unlock(t.Context(), "name"))
}

// What this storage does not hold is not unlocked, whoever else holds it.
func TestUnlockOfWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	server := rlocktest.Start(t)
	one, other := newStorage(t, server), newStorage(t, server)
	require.EqualError(t, other.Unlock(t.Context(), "name"), `"name" is not locked`)
	require.NoError(t, one.Lock(t.Context(), "name"))
	require.EqualError(t, other.Unlock(t.Context(), "name"), `"name" is not locked`)
	require.True(t, server.Redis().Exists("name"))

	require.NoError(t, one.Unlock(t.Context(), "name"))
	require.EqualError(t, one.Unlock(t.Context(), "name"), `"name" is not locked`)
}

// A Lock whose context ends gives up, and holds nothing.
func TestLockGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		one, other := newStorage(t, server), newStorage(t, server)
		require.NoError(t, one.Lock(t.Context(), "name"))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := other.Lock(ctx, "name")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.Error(t, other.Unlock(t.Context(), "name"))

		require.NoError(t, one.Unlock(t.Context(), "name"))
		require.NoError(t, other.Lock(t.Context(), "name"))
	})
}

// A context that has ended releases the lock all the same.
func TestUnlockAfterTheContext(t *testing.T) {
	t.Parallel()
	server := rlocktest.Start(t)
	storage := newStorage(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, storage.Lock(ctx, "name"))
	cancel()
	require.NoError(t, storage.Unlock(ctx, "name"))
	require.False(t, server.Redis().Exists("name"))
}

// A caller whose lock was lost does not release that of the next caller, which has the same name.
func TestUnlockOfALostLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		one, other := newStorage(t, server), newStorage(t, server)
		require.NoError(t, one.Lock(t.Context(), "name"))
		next := lock(t.Context(), one, "name")
		server.Advance(time.Second)
		require.Empty(t, next)
		server.Free("name") // a stranger deletes the key
		require.NoError(t, <-next)

		require.ErrorIs(t, one.Unlock(t.Context(), "name"), rlock.ErrLost)
		third := lock(t.Context(), other, "name")
		server.Advance(10 * rlock.DefaultTTL)
		require.Empty(t, third)
		require.NoError(t, one.Unlock(t.Context(), "name"))
		require.NoError(t, <-third)
	})
}

// certmagic calls TryLock where a storage has it. That of FileStorage would be another lock.
func TestNoOtherLocks(t *testing.T) {
	t.Parallel()
	var storage certmagic.Storage = newStorage(t, rlocktest.Start(t))
	_, tries := storage.(certmagic.TryLocker)
	require.False(t, tries)
	_, renews := storage.(certmagic.LockLeaseRenewer)
	require.False(t, renews)
}
