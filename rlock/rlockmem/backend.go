// Package rlockmem keeps locks in the memory of the process, for unit tests and for programs of one process.
// It uses the clock of package time, and so the clock of a bubble of testing/synctest.
//
//	locker, err := rlock.NewWithBackend(rlockmem.New())
package rlockmem

import (
	"context"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// Backend is a rlock.Backend with fences and notifications. All Lockers of one Backend share its locks. The
// zero Backend is not usable.
type Backend struct {
	mu       sync.Mutex
	held     map[string]lease
	full     int // number of leases at which forget drops old ones
	fence    uint64
	changes  map[int]func(key string) // of Notify
	watchers int                      // number of watchers so far
}

type lease struct {
	token string
	end   time.Time // zero: it never ends
}

var (
	_ rlock.Backend  = (*Backend)(nil)
	_ rlock.Fencer   = (*Backend)(nil)
	_ rlock.Notifier = (*Backend)(nil)
)

// New returns a Backend without locks.
func New() *Backend {
	return &Backend{held: map[string]lease{}, changes: map[int]func(string){}}
}

// has returns the lease of a key, or false if no token has the key. The caller holds mu.
func (b *Backend) has(key string) (lease, bool) {
	l, is := b.held[key]
	if is && !l.end.IsZero() && !time.Now().Before(l.end) {
		delete(b.held, key)
		return lease{}, false
	}
	return l, is
}

// forget drops leases that are over, once there are twice as many as after the last time. The caller holds
// mu.
func (b *Backend) forget() {
	if len(b.held) < b.full {
		return
	}
	for key := range b.held {
		b.has(key)
	}
	b.full = 2*len(b.held) + 64
}

// grow gives token a lease of ttl, unless it has a lease that ends later. The caller holds mu.
func (b *Backend) grow(key, token string, ttl time.Duration) {
	l, is := b.has(key)
	switch end := time.Now().Add(ttl); {
	case ttl == rlock.NoExpiry:
		b.held[key] = lease{token: token}
	case !is || !l.end.IsZero() && end.After(l.end):
		b.held[key] = lease{token, end}
	}
}

func (l lease) left() time.Duration {
	if l.end.IsZero() {
		return rlock.NoExpiry
	}
	return max((time.Until(l.end) + time.Millisecond - 1).Truncate(time.Millisecond), time.Millisecond)
}

// Acquire implements rlock.Backend.
func (b *Backend) Acquire(
	ctx context.Context, key, token string, ttl time.Duration,
) (acquired bool, left time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return false, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, is := b.has(key); is && l.token != token {
		return false, l.left(), nil
	}
	b.forget()
	b.grow(key, token, ttl)
	b.changed(key)
	return true, 0, nil
}

// Extend implements rlock.Backend.
func (b *Backend) Extend(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, is := b.has(key); !is || l.token != token {
		return false, nil
	}
	b.grow(key, token, ttl)
	return true, nil
}

// Release implements rlock.Backend.
func (b *Backend) Release(ctx context.Context, key, token string) (released bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, is := b.has(key); !is || l.token != token {
		return false, nil
	}
	delete(b.held, key)
	b.changed(key)
	return true, nil
}

// Holder implements rlock.Backend.
func (b *Backend) Holder(ctx context.Context, key string) (token string, left time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, is := b.has(key)
	if !is {
		return "", 0, nil
	}
	return l.token, l.left(), nil
}

// Fence implements rlock.Fencer.
func (b *Backend) Fence(ctx context.Context, _ string) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fence++
	return b.fence, nil
}

// Notify implements rlock.Notifier.
func (b *Backend) Notify(ctx context.Context, changed func(key string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers++
	number := b.watchers
	b.changes[number] = changed
	changed("") // from now on it hears of every change
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.changes, number)
	})
}

// changed calls each watcher. The caller holds mu.
func (b *Backend) changed(key string) {
	for _, f := range b.changes {
		f(key)
	}
}

// Delete frees a key whichever token has it, like an operator who repairs a system. The holder loses the
// lock.
func (b *Backend) Delete(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, key)
	b.changed(key)
}
