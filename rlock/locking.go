package rlock

import "context"

// Locking has the methods of a Locker that most code needs, so its tests can use a fake. A fake can be busy,
// fail, or call fn at once. The only Lock that a fake can return is nil, which holds nothing and has the
// Fence 0. Package rlockmem has real locks in memory, and package rlocktest has a server, for tests with
// locks that are held, lost or expire.
type Locking interface {
	Acquire(ctx context.Context, key string, opts ...Option) (*Lock, error)
	TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error)
	Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error
	TryDo(
		ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option,
	) (ran bool, err error)
}

var _ Locking = (*Locker)(nil)
