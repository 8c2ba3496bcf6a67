package cost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	loadAcquired = 200_000
	loadKeys     = 50_000
	loadCallers  = 2_000
	loadLockers  = 4
	loadTTL      = 3 * time.Second
	loadPatience = 2 * time.Second // of a call that acquires
	loadKept     = 2_000           // locks that are held all the time
	loadKeptTTL  = 30 * time.Second
	loadKills    = 2
	loadClient   = "load" // name of the connections
)

// TestLoad has very many callers take very many locks while the primary is killed
// and replaced, twice. TestMain sees that none of their goroutines is left.
func TestLoad(t *testing.T) {
	env.Long(t)
	env.Each(t, func(t *testing.T, e env.Engine) {
		s := e.StartSentinel(t)
		scale := loadScale
		if e.Path != env.Engines(t)[0].Path {
			scale = 10 // enough to see that they behave alike
		}
		l := &load{
			t: t, enough: int64(loadAcquired / scale), callers: loadCallers / scale,
			keys: make([]loadKey, loadKeys/scale), failed: map[string]int{},
		}
		for range loadLockers {
			option := s.Option()
			option.ClientName, option.Sentinel.ClientName = loadClient, loadClient
			l.lockers = append(l.lockers, env.OpenLocker(t, option, rlock.WithTTL(loadTTL)))
		}
		kept := env.TakeEach(t, l.lockers[0], env.Keys(loadKept/scale), rlock.WithTTL(loadKeptTTL),
			rlock.WithAutoExtend(true))
		start := time.Now()
		var callers sync.WaitGroup
		for i := range l.callers {
			callers.Go(func() { l.call(t.Context(), l.lockers[i%loadLockers]) })
		}
		for kill := range loadKills {
			if kill > 0 {
				s.Replace(t)
			}
			for l.acquired.Load() < int64(kill+1)*l.enough/(loadKills+1) {
				time.Sleep(time.Millisecond)
			}
			l.kill(s)
		}
		callers.Wait()
		l.report(time.Since(start))
		require.Less(t, time.Duration(l.longest.Load()), loadPatience+5*time.Second)
		for _, err := range l.lockers[0].ReleaseEach(t.Context(), kept) {
			require.NoError(t, err, "it was extended throughout")
		}
		for _, locker := range l.lockers {
			require.Empty(t, locker.Locks())
			require.Zero(t, locker.Stats().Waiting)
		}
		l.leavesNothing(s.Replica)
		l.disconnects(append(s.Sentinels, s.Replica))
	})
}

// load is what is known of a run.
type load struct {
	t        *testing.T
	enough   int64 // acquisitions
	callers  int
	lockers  []*rlock.Locker
	keys     []loadKey
	next     atomic.Int64
	acquired atomic.Int64
	kills    atomic.Int64 // begun
	replaced atomic.Int64 // and over
	doubled  atomic.Int64 // holders whose lock a failover has given to another
	longest  atomic.Int64
	slowest  atomic.Int64 // release

	mu     sync.Mutex
	failed map[string]int // by kind
	gaps   []time.Duration
}

// loadKey is a key with the resource that it guards.
type loadKey struct {
	mu     sync.Mutex
	holder *rlock.Lock
	kills  int64 // before the holder asked for it
	fence  uint64
}

// kill replaces the primary and measures how long nobody gets a lock.
func (l *load) kill(s *env.Sentinel) {
	l.kills.Add(1)
	start := time.Now()
	s.Failover(l.t)
	promoted := time.Since(start)
	before := l.acquired.Load()
	for l.acquired.Load() < before+int64(l.callers) {
		time.Sleep(time.Millisecond)
	}
	l.gaps = append(l.gaps, promoted, time.Since(start))
	l.replaced.Add(1)
}

// call takes and releases locks until there were enough and the primary was killed
// often enough.
func (l *load) call(ctx context.Context, locker *rlock.Locker) {
	for l.acquired.Load() < l.enough || l.replaced.Load() < loadKills {
		n := int(l.next.Add(1))
		for !l.once(ctx, locker, n) {
			if ctx.Err() != nil {
				return // the test has failed
			}
			time.Sleep(rand.N(100 * time.Millisecond)) // as callers who call again
		}
	}
}

// once takes and releases one lock. Every tenth key is one of a few that many want.
func (l *load) once(ctx context.Context, locker *rlock.Locker, n int) bool {
	place := n * 7919 % len(l.keys)
	if n%10 == 0 {
		place = rand.N(len(l.keys) / 100)
	}
	places := []int{place}
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	fences, kills := l.before(places), l.kills.Load()
	var lock *rlock.Lock
	var err error
	start := time.Now()
	switch n % 8 {
	case 0, 1, 2:
		lock, err = locker.TryAcquire(ctx, keyAt(place))
	case 3, 4:
		lock, err = locker.Acquire(ctx, keyAt(place))
	case 5:
		lock, err = locker.Acquire(ctx, keyAt(place), rlock.WithAutoExtend(true))
	default:
		places = append(places, (place+1)%len(l.keys), (place+2)%len(l.keys))
		fences = l.before(places)
		lock, err = locker.AcquireAll(ctx, []string{keyAt(places[0]), keyAt(places[1]), keyAt(places[2])})
	}
	raise(&l.longest, time.Since(start))
	if err != nil {
		l.note(err)
		return false
	}
	l.acquired.Add(1)
	for i, place := range places {
		l.takes(place, lock, fences[i], kills)
	}
	if n%20 == 0 {
		time.Sleep(rand.N(20 * time.Millisecond))
	}
	for _, place := range places {
		l.uses(place, lock, kills)
	}
	start = time.Now()
	if err := lock.Release(ctx); err != nil {
		l.note(err)
	}
	raise(&l.slowest, time.Since(start))
	return true
}

func keyAt(place int) string { return fmt.Sprint("load:", place) }

// before returns the largest fence of each key so far.
func (l *load) before(places []int) []uint64 {
	fences := make([]uint64, len(places))
	for i, place := range places {
		k := &l.keys[place]
		k.mu.Lock()
		fences[i] = k.fence
		k.mu.Unlock()
	}
	return fences
}

// takes checks a new lock against all others of its key.
func (l *load) takes(place int, lock *rlock.Lock, before uint64, kills int64) {
	k := &l.keys[place]
	k.mu.Lock()
	defer k.mu.Unlock()
	if lock.Fence() <= before {
		l.t.Errorf("key %d: fence %d was given out after %d", place, lock.Fence(), before)
	}
	if k.holder != nil && k.holder.Err() == nil && lock.Err() == nil {
		l.double(place, k.kills)
	}
	if lock.Fence() > k.fence {
		k.holder, k.kills, k.fence = lock, kills, lock.Fence()
	}
}

// uses has the resource of a key refuse a holder that another one has followed. Such
// a holder knows it, unless a failover has lost its lock.
func (l *load) uses(place int, lock *rlock.Lock, kills int64) {
	k := &l.keys[place]
	k.mu.Lock()
	defer k.mu.Unlock()
	if lock.Fence() < k.fence && lock.Err() == nil {
		l.double(place, kills)
	}
}

// double counts a lock that two have. One of them has it since before a kill.
func (l *load) double(place int, kills int64) {
	l.doubled.Add(1)
	if kills == l.kills.Load() {
		l.t.Errorf("key %d has two holders", place)
	}
}

// note counts an error by its kind, which every error must have.
func (l *load) note(err error) {
	kind := kindOf(err)
	if kind == "" && l.t.Context().Err() == nil { // else the test has failed before
		l.t.Errorf("an error without a name: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[kind]++
}

func raise(most *atomic.Int64, d time.Duration) {
	for {
		known := most.Load()
		if int64(d) <= known || most.CompareAndSwap(known, int64(d)) {
			return
		}
	}
}

func (l *load) report(took time.Duration) {
	l.t.Logf("%d acquisitions of %d keys by %d callers in %v; longest call %v, longest release %v; %d kills, "+
		"%v (promoted, through again); %d given twice by a failover; failures: %v",
		l.acquired.Load(), len(l.keys), l.callers, took.Round(time.Millisecond), time.Duration(l.longest.Load()),
		time.Duration(l.slowest.Load()),
		l.kills.Load(), l.gaps, l.doubled.Load(), l.failed)
}

// leavesNothing checks that what lost replies have left behind has a lease that ends.
func (l *load) leavesNothing(primary *env.Server) {
	direct := primary.Client(l.t)
	left := func() []string {
		keys, err := env.Do(l.t, direct, "KEYS", "load:*").AsStrSlice()
		require.NoError(l.t, err)
		return keys
	}
	behind := left()
	l.t.Logf("%d keys are left to their leases", len(behind))
	for _, key := range behind {
		lease := number(l.t, primary, "PTTL", key)
		require.NotEqual(l.t, int64(-1), lease, "%s never ends", key)
		require.LessOrEqual(l.t, lease, loadTTL.Milliseconds(), key)
	}
	env.Soon(l.t, func() bool { return len(left()) == 0 }, "all leases end")
}

// disconnects checks that lockers leave no connection open.
func (l *load) disconnects(servers []*env.Server) {
	open := func() (n int) {
		for _, server := range servers {
			reply := server.Do(l.t, "CLIENT", "LIST")
			list, err := reply.ToString()
			require.NoError(l.t, err)
			n += strings.Count(list, " name="+loadClient+" ")
		}
		return n
	}
	require.GreaterOrEqual(l.t, open(), 2*loadLockers, "one to the primary, one to a sentinel")
	for _, locker := range l.lockers {
		locker.Close()
	}
	env.Soon(l.t, func() bool { return open() == 0 }, "all connections are closed")
}

// number runs a command that answers a number.
func number(t *testing.T, server *env.Server, words ...string) int64 {
	t.Helper()
	reply := server.Do(t, words...)
	n, err := reply.ToInt64()
	require.NoError(t, err)
	return n
}
