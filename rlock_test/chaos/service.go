package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// lockService is what the round tests. rlock is one lock service. The others are broken on purpose,
// to test the checks.
type lockService interface {
	// acquire takes one key, or a set of keys of one slot.
	acquire(ctx context.Context, keys []string, w wish) (lock, error)
	// acquireEach acquires each key independently, without waiting.
	acquireEach(ctx context.Context, keys []string, w wish) []attempt
	// do runs fn while it holds key.
	do(ctx context.Context, key string, w wish, fn func(lock)) error
	// look asks which holder has key.
	look(ctx context.Context, key string, cached bool) error
	// handedOver is how many locks passed straight from one holder in this process to the next.
	handedOver() uint64
	close()
}

// lock is the part of *rlock.Lock that a worker uses.
type lock interface {
	Fence() uint64
	Token() string
	Err() error
	Deadline() time.Time
	Extend(ctx context.Context, ttl time.Duration) error
	Verify(ctx context.Context) error
	Release(ctx context.Context) error
}

// wish describes the lock that a worker wants.
type wish struct {
	ttl    time.Duration
	wait   bool // until the context ends
	extend bool // automatically
	worker int  // the number of the worker, from 1, distinct in the whole run
	share       // of one key; zero: the whole lock
}

// share is the part of a lock that a caller wants or holds. The zero share is the whole lock.
type share struct {
	Limit   int `json:"limit,omitempty"`   // of permits; 0: any number of readers
	Permits int `json:"permits,omitempty"` // 0: the whole lock
}

// whole reports whether the share is the whole lock.
func (s share) whole() bool { return s.Permits == 0 }

func (s share) String() string {
	switch {
	case s.whole():
		return "(whole)"
	case s.Limit == 0:
		return "(reader)"
	default:
		return fmt.Sprintf("(%d of %d)", s.Permits, s.Limit)
	}
}

// together reports whether two owners may hold a key at once, if there are enough permits.
func (s share) together(other share) bool {
	return !s.whole() && !other.whole() && (s.Limit == 0) == (other.Limit == 0)
}

// attempt is a lock, or the reason why there is none.
type attempt struct {
	lock lock
	err  error
}

// services are the lock services by name. Their functions make service number n of a process.
var services = map[string]func(option rueidis.ClientOption, n int) (lockService, error){"rlock": openRlock}

// rlockService is rlock in one of its configurations.
type rlockService struct {
	locker *rlock.Locker
	client rueidis.Client // nil: the Locker owns it
}

func openRlock(option rueidis.ClientOption, n int) (lockService, error) {
	switch n % 3 {
	case 0: // the server tells the Locker of changes
		locker, err := rlock.Open(option)
		return rlockService{locker: locker}, err
	case 1: // the Locker polls
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		locker, err := rlock.New(client)
		return rlockService{locker, client}, err
	default: // the Locker hands on no token
		locker, err := rlock.Open(option, rlock.WithUniqueToken(true))
		return rlockService{locker: locker}, err
	}
}

func (w wish) options() []rlock.Option {
	opts := []rlock.Option{rlock.WithTTL(w.ttl), rlock.WithAutoExtend(w.extend)}
	if w.extend && w.worker%4 == 0 { // the lock ends by itself, unless the worker releases it before
		opts = append(opts, rlock.WithMaxHold(2*w.ttl))
	}
	return opts
}

func (s rlockService) acquire(ctx context.Context, keys []string, w wish) (lock, error) {
	switch {
	case !w.whole() && w.Limit == 0 && w.wait:
		return s.locker.AcquireShared(ctx, keys[0], w.options()...)
	case !w.whole() && w.Limit == 0:
		return s.locker.TryAcquireShared(ctx, keys[0], w.options()...)
	case !w.whole() && w.wait:
		return s.locker.AcquirePermits(ctx, keys[0], max(w.Permits, 1), w.Limit, w.options()...)
	case !w.whole():
		return s.locker.TryAcquirePermits(ctx, keys[0], max(w.Permits, 1), w.Limit, w.options()...)
	case len(keys) > 1 && w.wait:
		return s.locker.AcquireAll(ctx, keys, w.options()...)
	case len(keys) > 1:
		return s.locker.TryAcquireAll(ctx, keys, w.options()...)
	case w.wait:
		return s.locker.Acquire(ctx, keys[0], w.options()...)
	default:
		return s.locker.TryAcquire(ctx, keys[0], w.options()...)
	}
}

func (s rlockService) acquireEach(ctx context.Context, keys []string, w wish) []attempt {
	attempts := make([]attempt, len(keys))
	results, err := s.locker.TryAcquireEach(ctx, keys, w.options()...)
	for i := range attempts {
		if err != nil {
			attempts[i].err = err
			continue
		}
		attempts[i] = attempt{results[i].Lock, results[i].Err}
	}
	return attempts
}

func (s rlockService) do(ctx context.Context, key string, w wish, fn func(lock)) error {
	run := func(_ context.Context, l *rlock.Lock) error {
		fn(l)
		return nil
	}
	switch {
	case w.whole():
		return s.locker.Do(ctx, key, run, rlock.WithTTL(w.ttl))
	case w.Limit == 0:
		return s.locker.DoShared(ctx, key, run, rlock.WithTTL(w.ttl))
	default:
		return s.locker.DoPermits(ctx, key, w.Permits, w.Limit, run, rlock.WithTTL(w.ttl))
	}
}

func (s rlockService) look(ctx context.Context, key string, cached bool) (err error) {
	if cached {
		_, err = s.locker.Check(ctx, key)
	} else {
		_, err = env.Admin(s.locker).Inspect(ctx, key)
	}
	return err
}

func (s rlockService) handedOver() uint64 { return s.locker.Stats().HandedOver }

func (s rlockService) close() {
	s.locker.Close()
	if s.client != nil {
		s.client.Close()
	}
}

// outcomeOf names how an operation ended.
func outcomeOf(err error) (outcome, string) {
	switch {
	case err == nil:
		return done, ""
	case errors.Is(err, rlock.ErrGaveUp):
		return gaveUp, ""
	case errors.Is(err, rlock.ErrHeld):
		return held, ""
	case errors.Is(err, rlock.ErrLost):
		return lost, ""
	case errors.Is(err, rlock.ErrNotHeld):
		return notHeld, err.Error()
	default:
		return failed, fmt.Sprintf("%.1000s", err)
	}
}
