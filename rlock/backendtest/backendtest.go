// Package backendtest tests whether a rlock.Backend keeps the rules of its documentation, for authors of a
// Backend:
//
//	func TestBackend(t *testing.T) {
//		backendtest.Run(t, func(t *testing.T) rlock.Backend { return mybackend.New(database(t)) })
//	}
package backendtest

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

const (
	short = 300 * time.Millisecond // a lease whose end a test waits for
	long  = time.Hour              // a lease that does not end during the test
	soon  = time.Minute            // the longest wait, on a busy machine too
)

// Run tests a Backend. open returns a Backend. All Backends of open must share their locks, like processes
// with one database. Each run uses new keys, so the store need not be empty. Run takes a few seconds. It
// tests Fence and Notify only if the Backend has them.
func Run(t *testing.T, open func(t *testing.T) rlock.Backend) {
	tests := map[string]func(s *suite){
		"Exclusion":        (*suite).exclusion,
		"Lease":            (*suite).lease,
		"NoExpiry":         (*suite).noExpiry,
		"Repetition":       (*suite).repetition,
		"LateCalls":        (*suite).lateCalls,
		"LeaseOnlyGrows":   (*suite).leaseOnlyGrows,
		"Keys":             (*suite).keys,
		"EndedContext":     (*suite).endedContext,
		"Contention":       (*suite).contention,
		"ExpiryContention": (*suite).expiryContention,
		"FreshContention":  (*suite).freshContention,
		"Takeover":         (*suite).takeover,
		"Locker":           (*suite).locker,
		"LockerSets":       (*suite).lockerSets,
		"LockerLoss":       (*suite).lockerLoss,
	}
	b := open(t)
	if _, fences := b.(rlock.Fencer); fences {
		tests["Fences"] = (*suite).fences
	}
	if _, notifies := b.(rlock.Notifier); notifies {
		tests["Notifications"] = (*suite).notifications
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&suite{T: t, one: open(t), other: open(t)})
		})
	}
}

// suite is one test with two Backends of the same locks.
type suite struct {
	*testing.T
	one, other rlock.Backend
}

// key returns a new key.
func (s *suite) key() string { return "backendtest:" + rand.Text() }

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// acquire calls Acquire and expects these results.
func (s *suite) acquire(
	b rlock.Backend, key, token string, ttl time.Duration, want bool,
) (left time.Duration) {
	s.Helper()
	acquired, left, err := b.Acquire(s.Context(), key, token, ttl)
	s.must(err)
	if acquired != want {
		s.Fatalf("Acquire of %q by %q: %v, want %v", key, token, acquired, want)
	}
	return left
}

func (s *suite) extend(b rlock.Backend, key, token string, ttl time.Duration, want bool) {
	s.Helper()
	held, err := b.Extend(s.Context(), key, token, ttl)
	s.must(err)
	if held != want {
		s.Fatalf("Extend of %q by %q: %v, want %v", key, token, held, want)
	}
}

func (s *suite) release(b rlock.Backend, key, token string, want bool) {
	s.Helper()
	released, err := b.Release(s.Context(), key, token)
	s.must(err)
	if released != want {
		s.Fatalf("Release of %q by %q: %v, want %v", key, token, released, want)
	}
}

func (s *suite) holder(b rlock.Backend, key, want string) (left time.Duration) {
	s.Helper()
	token, left, err := b.Holder(s.Context(), key)
	s.must(err)
	if token != want {
		s.Fatalf("Holder of %q: %q, want %q", key, token, want)
	}
	if token == "" && left != 0 {
		s.Fatalf("Holder: nobody has %q, and %v are left", key, left)
	}
	return left
}

// isLeft checks the time left of a lease of ttl, which may last a little longer.
func (s *suite) isLeft(left, ttl time.Duration) {
	s.Helper()
	if left <= 0 || left > ttl+soon {
		s.Fatalf("%v are left of a lease of %v", left, ttl)
	}
}

// eventually calls is until it returns true.
func (s *suite) eventually(what string, is func() bool) {
	s.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > soon {
			s.Fatal("it has not happened: ", what)
		}
	}
}

func (s *suite) exclusion() {
	key, another := s.key(), s.key()
	s.holder(s.other, key, "")
	s.acquire(s.one, key, "a", long, true)
	if left := s.acquire(s.other, key, "b", long, false); left != 0 {
		s.isLeft(left, long)
	}
	s.acquire(s.one, key, "b", long, false)
	s.isLeft(s.holder(s.other, key, "a"), long)
	s.acquire(s.other, another, "b", long, true)
	s.extend(s.other, key, "b", long, false)
	s.release(s.other, key, "b", false)
	s.holder(s.one, key, "a")
	s.release(s.other, key, "a", true) // the token decides, not the process
	s.holder(s.one, key, "")
	s.acquire(s.other, key, "b", long, true)
}

// lease checks that a lease does not end too early, and that it ends.
func (s *suite) lease() {
	key := s.key()
	began := time.Now()
	s.acquire(s.one, key, "a", short, true)
	s.eventually("the lease ends", func() bool {
		acquired, _, err := s.other.Acquire(s.Context(), key, "b", long)
		s.must(err)
		return acquired
	})
	if took := time.Since(began); took < short {
		s.Fatalf("a lease of %v was over after %v", short, took)
	}
	s.extend(s.one, key, "a", long, false)
	s.release(s.one, key, "a", false)
	s.holder(s.one, key, "b")
}

func (s *suite) noExpiry() {
	key := s.key()
	s.acquire(s.one, key, "a", rlock.NoExpiry, true)
	s.extend(s.one, key, "a", short, true)
	s.acquire(s.one, key, "a", short, true)
	time.Sleep(2 * short)
	if left := s.acquire(s.other, key, "b", long, false); left != rlock.NoExpiry && left != 0 {
		s.Fatalf("%v are left of a lease that does not end", left)
	}
	if left := s.holder(s.other, key, "a"); left != rlock.NoExpiry {
		s.Fatalf("%v are left of a lease that does not end", left)
	}
	s.release(s.one, key, "a", true)
	s.acquire(s.other, key, "b", long, true)
	s.extend(s.other, key, "b", rlock.NoExpiry, true)
	if left := s.holder(s.one, key, "b"); left != rlock.NoExpiry {
		s.Fatalf("%v are left of a lease that was extended for ever", left)
	}
}

func (s *suite) repetition() {
	key := s.key()
	for range 3 {
		s.acquire(s.one, key, "a", long, true)
		s.acquire(s.other, key, "a", long, true)
		s.extend(s.one, key, "a", long, true)
	}
	s.release(s.one, key, "a", true)
	s.release(s.one, key, "a", false)
	s.release(s.other, key, "a", false)
	s.extend(s.one, key, "a", long, false)
	s.holder(s.one, key, "")
}

// lateCalls makes calls of a former holder, after another token has got the key.
func (s *suite) lateCalls() {
	key := s.key()
	s.acquire(s.one, key, "a", long, true)
	s.release(s.one, key, "a", true)
	s.extend(s.one, key, "a", long, false)
	s.holder(s.one, key, "")
	s.acquire(s.other, key, "b", long, true)
	s.extend(s.one, key, "a", long, false)
	s.release(s.one, key, "a", false)
	s.acquire(s.one, key, "a", long, false)
	s.isLeft(s.holder(s.one, key, "b"), long)

	// The lease of a key ends even if no call asks for the key.
	s.acquire(s.one, s.key(), "a", long, true)
	expires := s.key()
	s.acquire(s.one, expires, "a", short, true)
	time.Sleep(2 * short)
	s.free(expires)
	s.extend(s.one, expires, "a", long, false)
	s.release(s.one, expires, "a", false)
	s.holder(s.one, expires, "")
}

func (s *suite) leaseOnlyGrows() {
	extended, confirmed, grown, again := s.key(), s.key(), s.key(), s.key()
	s.acquire(s.one, extended, "a", long, true)
	s.acquire(s.one, confirmed, "a", long, true)
	s.extend(s.one, extended, "a", short, true)
	s.acquire(s.one, confirmed, "a", short, true)
	s.eventually("a short lease is extended", func() bool { // unless this takes longer than it lasts
		s.acquire(s.one, grown, "a", short, true)
		held, err := s.one.Extend(s.Context(), grown, "a", long)
		s.must(err)
		return held
	})
	s.acquire(s.one, again, "a", short, true)
	s.acquire(s.one, again, "a", long, true)
	time.Sleep(2 * short)
	for _, key := range []string{extended, confirmed, grown, again} {
		s.acquire(s.other, key, "b", long, false)
		s.holder(s.other, key, "a")
	}
}

func (s *suite) keys() {
	base := s.key()
	names := []string{
		"", " ", ".", "..", "$", "$set", "a.b", "a/b", "{a}", "%", "'", `"`, `\`, "*", "_id", "ä", "Ä", "世界", "\n",
		"a", "A", "a ", strings.Repeat("x", 400),
	}
	for i, name := range names {
		s.acquire(s.one, base+name, "token "+name, long, true)
		for _, before := range names[:i] {
			s.holder(s.one, base+before, "token "+before)
		}
	}
	for _, name := range names {
		s.release(s.one, base+name, "token "+name, true)
	}
}

func (s *suite) endedContext() {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	key := s.key()
	if acquired, _, err := s.one.Acquire(ctx, key, "a", long); err == nil && !acquired {
		s.Error("Acquire of a free key with a context that has ended: false and no error")
	} else if err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("the error of a call whose context has ended must be that of the context: %v", err)
	}
	_, err := s.one.Extend(ctx, key, "a", long)
	_, err2 := s.one.Release(ctx, key, "a")
	_, _, err3 := s.one.Holder(ctx, key)
	for _, err := range []error{err, err2, err3} {
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("the error of a call whose context has ended must be that of the context: %v", err)
		}
	}
}

// contention lets many tokens take a key in turn.
func (s *suite) contention() {
	const workers, turns = 8, 10
	var (
		key    = s.key()
		inside atomic.Int32
		group  sync.WaitGroup
	)
	for worker := range workers {
		b := s.one
		if worker%2 == 1 {
			b = s.other
		}
		group.Go(func() {
			for taken := 0; taken < turns; {
				token := rand.Text()
				acquired, _, err := b.Acquire(s.Context(), key, token, long)
				switch {
				case err != nil:
					s.Error(err)
					return
				case !acquired:
					time.Sleep(time.Millisecond)
					continue
				}
				taken++
				if inside.Add(1) != 1 {
					s.Error("two have the key")
				}
				time.Sleep(time.Millisecond) // time for another holder to collide
				inside.Add(-1)
				if released, err := b.Release(s.Context(), key, token); err != nil || !released {
					s.Errorf("Release: %v, %v", released, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// expiryContention lets many tokens take a key whose lease is over. Only one may get it.
func (s *suite) expiryContention() {
	for range 5 {
		key := s.key()
		s.acquire(s.one, key, "dead", 10*time.Millisecond, true)
		s.eventually("the lease ends", func() bool {
			token, _, err := s.other.Holder(s.Context(), key)
			s.must(err)
			return token == ""
		})
		s.oneGets(key)
	}
}

// freshContention lets many tokens take a key without stored data. Only one may get it.
func (s *suite) freshContention() {
	for range 20 {
		s.oneGets(s.key())
	}
}

// oneGets lets many tokens take a free key at the same time. Only one may get it.
func (s *suite) oneGets(key string) {
	s.Helper()
	var got atomic.Int32
	var group sync.WaitGroup
	for worker := range 8 {
		b := s.one
		if worker%2 == 1 {
			b = s.other
		}
		group.Go(func() {
			acquired, _, err := b.Acquire(s.Context(), key, rand.Text(), long)
			if err != nil {
				s.Error(err)
			}
			if acquired {
				got.Add(1)
			}
		})
	}
	group.Wait()
	if n := got.Load(); n != 1 {
		s.Fatalf("%d have the key", n)
	}
}

// takeover lets a token whose lease ends release or extend it while another token takes the key. The calls of
// the first token must not change the lease of the other.
func (s *suite) takeover() {
	for i := range 20 {
		key := s.key()
		s.acquire(s.one, key, "a", 10*time.Millisecond, true)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for began := time.Now(); time.Since(began) < 30*time.Millisecond; {
					var err error
					if i%2 == 0 {
						_, err = s.one.Release(s.Context(), key, "a")
					} else {
						_, err = s.one.Extend(s.Context(), key, "a", time.Millisecond)
					}
					if err != nil {
						s.Error(err)
						return
					}
				}
			})
		}
		s.eventually("another has the key", func() bool {
			acquired, _, err := s.other.Acquire(s.Context(), key, "b", long)
			s.must(err)
			return acquired
		})
		group.Wait()
		s.holder(s.other, key, "b")
		s.acquire(s.one, key, "c", long, false)
	}
}

func (s *suite) fences() {
	one, other := s.one.(rlock.Fencer), s.other.(rlock.Fencer)
	last := uint64(0)
	for i := range 50 {
		from, key := one, "a"
		if i%2 == 1 {
			from = other
		}
		if i%3 == 1 {
			key = "b"
		}
		fence, err := from.Fence(s.Context(), key)
		s.must(err)
		if fence <= last || fence > math.MaxInt64 {
			s.Fatalf("the fence after %d is %d", last, fence)
		}
		last = fence
	}
	var before atomic.Uint64 // the largest that a call has returned
	var group sync.WaitGroup
	for worker := range 8 {
		from := one
		if worker%2 == 1 {
			from = other
		}
		group.Go(func() {
			for range 20 {
				least := before.Load()
				fence, err := from.Fence(s.Context(), "a")
				if err != nil || fence <= least {
					s.Errorf("the fence after %d is %d, %v", least, fence, err)
					return
				}
				for known := before.Load(); fence > known && !before.CompareAndSwap(known, fence); known = before.Load() {
				}
			}
		})
	}
	group.Wait()
	if next, err := one.Fence(s.Context(), "a"); err != nil || next < last+8*20+1 {
		s.Fatalf("after 160 fences from %d on, the next is %d, %v: some were given twice", last, next, err)
	}
}

func (s *suite) notifications() {
	notifier := s.one.(rlock.Notifier)
	ctx, cancel := context.WithCancel(s.Context())
	var told, begun atomic.Int32
	key := s.key()
	notifier.Notify(ctx, func(changed string) {
		if changed == key || changed == "" {
			told.Add(1)
		}
	})
	s.acquire(s.other, key, "a", long, true)
	before := told.Load()
	s.release(s.other, key, "a", true)
	s.eventually("the key is told to have changed", func() bool { return told.Load() > before })
	cancel()
	begins, end := context.WithCancel(s.Context())
	defer end()
	notifier.Notify(begins, func(changed string) {
		if changed == "" {
			begun.Add(1)
		}
	})
	s.eventually("it says that it begins to hear", func() bool { return begun.Load() > 0 })
}
