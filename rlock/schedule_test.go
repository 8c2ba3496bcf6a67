package rlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

var (
	schedules = flag.Int("schedules", usualSchedules, "how many random schedules to run")
	firstSeed = flag.Uint64("seed", 0, "of the first random schedule; 0: random")
)

// Schedules that run in one bubble, one after the other: a new server is slow.
const perBubble = 50

// TestSchedules has workers do random things to a few locks, in fake time, and checks
// after every step that nothing is promised that is not so. A seed draws the same
// things again, but not the same interleaving.
func TestSchedules(t *testing.T) {
	t.Parallel()
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	schedules := *schedules
	if testing.Short() {
		schedules /= 5
	}
	for from := 0; from < schedules; from += perBubble {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
				for i := from; i < min(from+perBubble, schedules) && !t.Failed(); i++ {
					runSchedule(t, client, redis, first+uint64(i))
				}
			})
		})
	}
}

func runSchedule(t *testing.T, client rueidis.Client, redis *redis, seed uint64) {
	draw := &draw{rand.New(rand.NewPCG(seed, 0))}
	s := &schedule{redis: redis, seed: seed, t: t, held: map[string][]*holding{}, fences: map[string]uint64{},
		meddled: map[string]int{}, since: map[string][]int{}}
	redis.FlushAll()
	redis.network.Store(&network{slow: pick(draw, 0, 100*time.Microsecond, 3*time.Millisecond),
		loses: pick(draw, 0, 0, 0, 30)})
	defer redis.network.Store(nil)
	s.calm = redis.network.Load().loses == 0
	s.keys = []string{"a", "b", "c"}[:1+draw.IntN(3)]
	for range 1 + draw.IntN(2) {
		opts := []rlock.LockerOption{rlock.WithTTL(draw.ttl())}
		if draw.oneIn(2) {
			opts = append(opts, rlock.WithTurn(pick(draw, 0, draw.ttl()/100, draw.ttl()/10)))
		}
		locker, err := rlock.New(client, opts...)
		require.NoError(t, err)
		s.lockers = append(s.lockers, locker)
	}
	s.alike, s.closes = draw.oneIn(2), draw.oneIn(5)
	var group sync.WaitGroup
	for range 2 + draw.IntN(6) {
		seed := draw.Uint64()
		group.Go(func() { s.work(t.Context(), newDraw(seed)) })
	}
	if draw.oneIn(3) {
		seed := draw.Uint64()
		group.Go(func() { s.meddle(newDraw(seed)) })
	}
	if s.closes {
		after := draw.ttl()
		group.Go(func() {
			time.Sleep(after)
			s.lockers[0].Close()
		})
	}
	s.await(&group)
	s.settle(t.Context())
	for _, locker := range s.lockers {
		locker.Close()
	}
}

// draw draws what happens.
type draw struct{ *rand.Rand }

func newDraw(seed uint64) *draw { return &draw{rand.New(rand.NewPCG(seed, 1))} }

func (d *draw) oneIn(n int) bool { return d.IntN(n) == 0 }

// Times are drawn from few, so that things often happen at the same instant.
func (d *draw) ttl() time.Duration { return time.Duration(2+d.IntN(48)) * step }

const step = 10 * time.Millisecond

func pick[T any](d *draw, of ...T) T { return of[d.IntN(len(of))] }

// await waits for the workers, whose every call must return.
func (s *schedule) await(group *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Hour):
		panic(fmt.Sprintf("seed %d: a call does not return", s.seed))
	}
}

// settle lets all leases run out and checks that nothing is left.
func (s *schedule) settle(ctx context.Context) {
	s.redis.network.Store(nil)
	time.Sleep(time.Minute)
	synctest.Wait()
	for i, locker := range s.lockers {
		if n := locker.Stats().Waiting; n != 0 {
			s.wrong("%d still wait", n)
		}
		if held := locker.Locks(); len(held) != 0 {
			s.wrong("%d locks are still held", len(held))
		}
		for _, key := range s.keys {
			if s.closes && i == 0 {
				continue
			}
			lock, err := locker.TryAcquire(ctx, key)
			if err == nil {
				err = lock.Release(ctx)
			}
			if err != nil {
				s.wrong("a free key cannot be had: %v", err)
			}
		}
	}
	for _, key := range s.redis.Keys() {
		if !strings.HasPrefix(key, "rlock:fence:") {
			s.wrong("key %q is left", key)
		}
	}
}

// meddle does what a stranger may do to the keys.
func (s *schedule) meddle(draw *draw) {
	for range 1 + draw.IntN(4) {
		time.Sleep(draw.ttl())
		key := pick(draw, s.keys...)
		s.meddling(key, func() {
			if draw.oneIn(2) {
				s.redis.Del(key)
				return
			}
			_ = s.redis.Set(key, "stranger")
			s.redis.SetTTL(key, draw.ttl())
		})
	}
}

// work takes and holds locks.
func (s *schedule) work(ctx context.Context, draw *draw) {
	for range 1 + draw.IntN(5) {
		if h := s.acquire(ctx, draw); h != nil {
			s.hold(ctx, draw, h)
		}
		time.Sleep(time.Duration(draw.IntN(3)) * step)
	}
}

func (s *schedule) acquire(ctx context.Context, draw *draw) *holding {
	locker := pick(draw, s.lockers...)
	keys := []string{pick(draw, s.keys...)}
	if draw.oneIn(6) {
		keys = s.keys
	}
	opts, long := s.options(draw)
	limit, bounded := time.Duration(1+draw.IntN(50))*step, true
	switch draw.IntN(5) {
	case 0:
		opts = append(opts, rlock.WithRetry(rlock.Fixed(time.Duration(1+draw.IntN(3))*step).MaxTime(limit)))
	case 1:
		opts = append(opts,
			rlock.WithRetry(rlock.Exponential(time.Millisecond, 5*step).MaxAttempts(1+draw.IntN(20))))
		bounded = false
	case 2:
		bounded = false
	default:
		if draw.oneIn(2) {
			limit /= 50 // a call is under way
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	h := s.asking(keys)
	h.long = long
	start := time.Now()
	var err error
	switch {
	case draw.oneIn(8):
		h.lock, err = locker.TryAcquireAll(ctx, keys, opts...)
	case len(keys) == 1:
		h.lock, err = locker.Acquire(ctx, keys[0], opts...)
	default:
		h.lock, err = locker.AcquireAll(ctx, keys, opts...)
	}
	if late := time.Since(start) - limit; bounded && s.calm && late > time.Second {
		s.wrong("acquire returned %v too late: %v", late, err)
	}
	if err != nil {
		s.failed(err)
		return nil
	}
	s.took(h)
	return h
}

// options draws those of an acquisition. A lock with a long lease has to be released.
func (s *schedule) options(draw *draw) (opts []rlock.Option, long bool) {
	if s.alike {
		return []rlock.Option{rlock.WithAutoExtend(true)}, false
	}
	opts = append(opts, rlock.WithAutoExtend(draw.oneIn(2)))
	switch {
	case s.calm && !s.closes && draw.oneIn(4):
		long = true
		opts = append(opts, rlock.WithTTL(time.Hour))
	case draw.oneIn(3):
		opts = append(opts, rlock.WithTTL(draw.ttl()))
	}
	if draw.oneIn(4) {
		opts = append(opts, rlock.WithUniqueToken(true))
	}
	return opts, long
}

// failed checks why an acquisition failed.
func (s *schedule) failed(err error) {
	var facts *rlock.AcquireError
	if !errors.As(err, &facts) {
		s.wrong("no facts in %v", err)
	}
	for _, known := range []error{rlock.ErrGaveUp, rlock.ErrHeld, rlock.ErrExpired, rlock.ErrClosed} {
		if errors.Is(err, known) {
			return
		}
	}
	if s.calm {
		s.wrong("acquire: %v", err)
	}
}
