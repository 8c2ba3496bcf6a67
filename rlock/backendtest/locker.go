package backendtest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

func (s *suite) openLocker(b rlock.Backend, opts ...rlock.LockerOption) *rlock.Locker {
	s.Helper()
	l, err := rlock.NewWithBackend(b, opts...)
	s.must(err)
	s.Cleanup(l.Close)
	return l
}

// locker lets two Lockers hold a lock in turn, for longer than its lease.
func (s *suite) locker() {
	key := s.key()
	var inside atomic.Int32
	var fence uint64
	lockers := []*rlock.Locker{s.openLocker(s.one), s.openLocker(s.other)}
	errs := make(chan error, 6)
	for worker := range cap(errs) {
		go func() {
			errs <- lockers[worker%2].Do(s.Context(), key, func(_ context.Context, lock *rlock.Lock) error {
				if inside.Add(1) != 1 {
					return errors.New("two have the lock")
				}
				defer inside.Add(-1)
				if f := lock.Fence(); f != 0 && f <= fence {
					return errors.New("the fence does not grow")
				}
				fence = lock.Fence()
				time.Sleep(2 * short)
				return nil
			}, rlock.WithTTL(3*short))
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil && !errors.Is(err, rlock.ErrExpired) { // on a busy machine
			s.Error(err)
		}
	}
	s.free(key)
}

// free expects that a key gets free soon. The lease of an expired lock may last a little longer.
func (s *suite) free(key string) {
	s.Helper()
	s.eventually("the key is free", func() bool {
		token, _, err := s.one.Holder(s.Context(), key)
		s.must(err)
		return token == ""
	})
}

// lockerSets lets two Lockers take overlapping sets.
func (s *suite) lockerSets() {
	keys := []string{s.key(), s.key(), s.key()}
	lockers := []*rlock.Locker{s.openLocker(s.one), s.openLocker(s.other)}
	var inside [3]atomic.Int32
	errs := make(chan error, 6)
	for worker := range cap(errs) {
		first, second := worker%3, (worker+1+worker/3)%3
		go func() {
			set := []string{keys[first], keys[second]}
			errs <- lockers[worker%2].DoAll(s.Context(), set, func(context.Context, *rlock.Lock) error {
				if inside[first].Add(1) != 1 || inside[second].Add(1) != 1 {
					return errors.New("two have a lock")
				}
				inside[first].Add(-1)
				inside[second].Add(-1)
				return nil
			})
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			s.Error(err)
		}
	}
	for _, key := range keys {
		s.free(key)
	}
}

// lockerLoss takes the key away from a holder. The holder hears of it, or notices when it extends the lock.
func (s *suite) lockerLoss() {
	key := s.key()
	locker := s.openLocker(s.one, rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
	lock, err := locker.Acquire(s.Context(), key)
	for errors.Is(err, rlock.ErrExpired) { // on a busy machine
		lock, err = locker.Acquire(s.Context(), key)
	}
	s.must(err)
	s.release(s.other, key, lock.Token(), true)
	s.acquire(s.other, key, "thief", long, true)
	select {
	case <-lock.Context().Done():
	case <-time.After(soon):
		s.Fatal("the holder does not know that its key is another's")
	}
	if err := lock.Err(); !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrExpired) {
		s.Error(err)
	}
	s.holder(s.one, key, "thief")
}
