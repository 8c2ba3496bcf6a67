// Package adapter has the locks of rlock in the form in which certmagic wants them: of several servers that
// share a storage, one at a time asks for the certificate of a name. It is to be copied from, and a module of
// its own, so that certmagic is not among the requirements of rlock.
//
//	locker, err := rlock.Open(option, rlock.WithPrefix("certmagic:"))
//	certmagic.Default.Storage = adapter.New(&certmagic.FileStorage{Path: "/mnt/certificates"}, locker)
//
// FileStorage has locks of its own, which need a file system that creates files atomically and clocks that
// agree. With these, it is enough that what one server has written, the next holder reads.
//
// certmagic gives its work no context that ends with the lock, and wants work that may be done twice. If the
// lock is lost, Unlock says so, and certmagic logs it.
package adapter

import (
	"context"
	"fmt"
	"sync"

	"github.com/caddyserver/certmagic"

	"github.com/rlock-go/toolkit/rlock"
)

// Storage is another storage with the locks of rlock. It has only the methods of certmagic.Storage: a TryLock
// of the other one would take another lock than Lock does.
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

// Lock waits for the lock of name until ctx ends, and has it extended until Unlock.
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

// Unlock releases what Lock took. If that was lost meanwhile, another caller of this process may have the
// lock since then, and keeps it.
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
