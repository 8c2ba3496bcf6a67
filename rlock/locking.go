package rlock

import "context"

// Locking is what most code needs of a Locker, so that its tests can give it a fake: one that is busy, or
// fails, or calls fn at once. A fake has no Lock to give but a nil one, which holds nothing and has the
// Fence 0. For tests with locks that are held, lost and expire, package rlockmem has them in memory, and
// rlocktest has a server.
type Locking interface {
	Acquire(ctx context.Context, key string, opts ...Option) (*Lock, error)
	TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error)
	Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error
	TryDo(
		ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option,
	) (ran bool, err error)
}

var _ Locking = (*Locker)(nil)
