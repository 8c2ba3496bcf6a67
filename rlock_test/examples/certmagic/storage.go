// Package adapter makes locks of rlock fit certmagic. Several servers share a storage, and one server at a
// time asks for the certificate of a name. Copy this code. It is a module of its own, so rlock does not
// require certmagic.
//
//	locker, err := rlock.Open(option, rlock.WithPrefix("certmagic:"))
//	certmagic.Default.Storage = adapter.New(&certmagic.FileStorage{Path: "/mnt/certificates"}, locker)
//
// FileStorage has its own locks. They need a file system that creates files atomically, and clocks that
// agree. The locks of rlock need only one thing: the next holder reads what the last holder has written.
//
// certmagic gives its work no context that ends with the lock, and expects that work may run twice. If the
// lock is lost, Unlock returns the error, and certmagic logs it.
package adapter

import (
	"context"
	"fmt"
	"sync"

	"github.com/caddyserver/certmagic"

	"github.com/rlock-go/toolkit/rlock"
)

// Storage adds the locks of rlock to another storage. It has only the methods of certmagic.Storage, because a
// TryLock of the other storage would take a different lock than Lock.
type Storage struct {
	certmagic.Storage
	locker *rlock.Locker
	mu     sync.Mutex
	held   map[string][]*rlock.Lock // by name, the oldest first; all but the last are lost
}

// New returns a storage that keeps its data in data, and locks with locker.
func New(data certmagic.Storage, locker *rlock.Locker) *Storage {
	return &Storage{Storage: data, locker: locker, held: map[string][]*rlock.Lock{}}
}

// Lock waits for the lock of name until ctx ends. rlock extends the lease until Unlock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lock, err := s.locker.Acquire(ctx, name, rlock.WithAutoExtend(true))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = append(s.held[name], lock)
	return nil
}

// Unlock releases the lock that Lock took. If that lock was lost, another caller of this process may hold a
// newer one. Unlock leaves the newer lock alone.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	locks := s.held[name]
	if len(locks) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("%q is not locked", name)
	}
	if s.held[name] = locks[1:]; len(locks) == 1 {
		delete(s.held, name)
	}
	s.mu.Unlock()
	return locks[0].Release(ctx)
}
