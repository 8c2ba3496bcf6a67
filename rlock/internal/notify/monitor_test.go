package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// server has keys, and tells of changes to those that were read since the last one.
type server struct {
	hub *notify.Hub

	mu      sync.Mutex
	owners  map[string]string
	ends    map[string]time.Time // of leases; none: never
	tracked map[string]bool
	err     error
	silent  uint16   // slot whose node does not answer; 0: none
	reads   []string // keys, with times
	lefts   int      // how often leases were asked for
	start   time.Time
	forgets bool           // it tells of a change at every read
	during  func(s string) // called between a read and its answer
}

// Slot is the number that a key ends with.
func (s *server) Slot(key string) uint16 {
	_, number, _ := strings.Cut(key, "@")
	slot, _ := strconv.Atoi(number)
	return uint16(slot)
}

func (s *server) Owners(ctx context.Context, locks [][]string) []notify.Answer[string] {
	answers := make([]notify.Answer[string], len(locks))
	var pushed []string
	s.mu.Lock()
	if slot := s.Slot(locks[0][0]); slot != 0 && slot == s.silent {
		s.reads = append(s.reads, fmt.Sprint(locks[0][0], "@", time.Since(s.start).Milliseconds()))
		s.mu.Unlock()
		<-ctx.Done()
		for i := range answers {
			answers[i].Err = ctx.Err()
		}
		return answers
	}
	for i, keys := range locks {
		for _, key := range keys {
			s.reads = append(s.reads, fmt.Sprint(key, "@", time.Since(s.start).Milliseconds()))
			s.tracked[key] = !s.forgets
			if s.forgets {
				pushed = append(pushed, key)
			}
			answers[i].Keys = append(answers[i].Keys, s.owners[key])
		}
		answers[i].Err = s.err
	}
	during := s.during
	s.mu.Unlock()
	if during != nil {
		during(locks[0][0])
	}
	s.tell(pushed...)
	return answers
}

func (s *server) Left(ctx context.Context, locks [][]string) []notify.Answer[time.Duration] {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]notify.Answer[time.Duration], len(locks))
	for i, keys := range locks {
		for _, key := range keys {
			s.lefts++
			left := clock.NoExpiry
			if end, ends := s.ends[key]; s.owners[key] == "" {
				left = notify.Gone
			} else if ends {
				left = time.Until(end)
			}
			answers[i].Keys = append(answers[i].Keys, left)
		}
	}
	return answers
}

// change changes what the server's mutex guards.
func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// set changes a key.
func (s *server) set(key, owner string, ttl time.Duration) {
	s.mu.Lock()
	s.owners[key] = owner
	s.ends[key] = time.Now().Add(ttl)
	tracked := s.tracked[key]
	s.tracked[key] = false
	s.mu.Unlock()
	if tracked {
		s.tell(key)
	}
}

func (s *server) tell(keys ...string) {
	for _, key := range keys {
		s.hub.Tell(key)
	}
}

func (s *server) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = nil
	return reads
}

// lock is a Held that acts as a lock does.
type lock struct {
	entry   notify.Entry
	monitor *notify.Monitor
	keys    []string

	mu    sync.Mutex
	lease terms.Terms
	lost  bool
}

func (l *lock) Entry() *notify.Entry     { return &l.entry }
func (l *lock) Monitor() *notify.Monitor { return l.monitor }
func (l *lock) Keys() []string           { return l.keys }

func (l *lock) Version() (terms.Version, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease.Version(), !l.lost
}

func (l *lock) Owners(owners []string, v terms.Version) (held, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range owners {
		is, again := l.lease.Lost(owner, v)
		l.lost = l.lost || is
		if is || again {
			return !is, again
		}
	}
	return true, false
}

func (l *lock) Left(left time.Duration, v terms.Version, sent, received clock.Instant) terms.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease.Shortened(v, left, sent, received)
}

func (l *lock) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *lock) deadline() time.Duration { return l.lease.Deadline().Until() }

// bench is a Monitor with its server.
type bench struct {
	*notify.Monitor
	*server
	listener *notify.Listener
	after    []notify.Held // as the Monitor has called after
}

func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := notify.NewHub()
		b := &bench{listener: hub.Listen(), server: &server{
			hub: hub, owners: map[string]string{}, ends: map[string]time.Time{}, tracked: map[string]bool{},
			start: time.Now(),
		}}
		b.Monitor = notify.NewMonitor(t.Context(), b.listener, b.server, func(read []notify.Held) {
			b.change(func() { b.after = append(b.after, read...) })
		})
		test(t, b)
	})
}

const ttl = time.Minute

// hold adds a lock of keys, with the token "t".
func (b *bench) hold(keys ...string) *lock {
	l := &lock{keys: keys, monitor: b.Monitor}
	l.lease.Prepare(ttl, "t")
	l.lease.Start(clock.LeaseEnd(clock.Now(), ttl))
	for _, key := range keys {
		b.set(key, "t", ttl)
	}
	b.Add(l)
	return l
}

// renew extends a lock as its holder does.
func (b *bench) renew(l *lock) {
	l.mu.Lock()
	e := l.lease.BeginRenewal(clock.Now(), clock.NoExpiry)
	l.mu.Unlock()
	for _, key := range l.keys {
		b.set(key, e.Token, e.TTL)
	}
	l.mu.Lock()
	l.lease.Confirm(e, clock.Now())
	l.mu.Unlock()
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A lock is read once it has been held for a moment, and when the server tells of a change.
func TestReads(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.hold("a", "b")
		sleep(19 * time.Millisecond)
		require.Empty(t, b.took())
		require.False(t, b.listener.Heard())
		sleep(time.Hour)
		require.Equal(t, []string{"a@20", "b@20"}, b.took())
		require.Equal(t, []notify.Held{l}, b.after)
		b.renew(l)
		b.Add(l) // it is known already
		sleep(time.Hour)
		require.Equal(t, []string{"a@3600021", "b@3600021"}, b.took())
		require.True(t, b.listener.Heard())
		require.Zero(t, b.lefts, "its own extension is the reason")
		b.Remove(l)
		b.renew(l)
		b.Add(l)
		sleep(time.Hour)
		require.Empty(t, b.took())
	})
}

func TestLost(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"before it was read": 0,
		"after it was read": time.Second} {
		for _, owner := range []string{"", "foreign"} {
			t.Run(name+", to "+owner, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, b *bench) {
					lost, held := b.hold("a", "b"), b.hold("c")
					sleep(after)
					b.set("b", owner, ttl)
					sleep(25 * time.Millisecond)
					require.True(t, lost.isLost())
					require.False(t, held.isLost())
				})
			})
		}
	}
}

// What somebody else does to a lease is found, whether or not the token stays.
func TestShortened(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.hold("a", "b")
		sleep(time.Second)
		b.set("b", "t", 5*time.Second)
		sleep(10 * time.Millisecond)
		require.LessOrEqual(t, l.deadline(), 5*time.Second)
		require.Equal(t, 2, b.lefts)
	})
}

// Of several who hold one key, each is told of a change for as long as it holds the key.
func TestSeveralHoldOneKey(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		inBubble(t, func(t *testing.T, b *bench) {
			locks := []*lock{b.hold("a"), b.hold("a"), b.hold("a")}
			sleep(time.Second)
			for left := len(locks); left > 0; left-- {
				require.Equal(t, left, b.hub.Holding())
				b.took()
				b.tell("a")
				sleep(time.Second)
				require.Len(t, b.took(), left)
				b.Remove(locks[order[len(locks)-left]])
			}
			require.Zero(t, b.hub.Holding())
			b.tell("a")
			sleep(time.Second)
			require.Empty(t, b.took())
		})
	}
}

// A read whose answer comes after a change of the token is no loss.
func TestTokenChangesDuringARead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.hold("a")
		during := func(string) {
			b.change(func() { b.during = nil })
			l.mu.Lock()
			e := l.lease.Begin(clock.Now(), ttl/2, func() string { return "other" })
			l.lease.Confirm(e, clock.Now())
			l.mu.Unlock()
			b.set("a", "other", ttl/2)
		}
		b.change(func() { b.during = during })
		sleep(time.Second)
		require.False(t, l.isLost())
		require.Equal(t, []string{"a@20", "a@22"}, b.took())
	})
}

// Locks with one spurious message after another are read ever more slowly, and those that
// were not at their own pace.
func TestReadInVain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.change(func() { b.forgets = true })
		b.hold("a")
		sleep(10 * time.Second)
		require.Less(t, len(b.took()), 30)
		sleep(10 * time.Second)
		require.LessOrEqual(t, len(b.took()), 11)
	})
}

// What could not be read is read again a second later, with what was told since.
func TestReadFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.change(func() { b.err = errors.New("no connection") })
		l := b.hold("a")
		sleep(2500 * time.Millisecond)
		require.Equal(t, []string{"a@20", "a@1020", "a@2020"}, b.took())
		b.change(func() { b.err = nil })
		b.set("a", "foreign", ttl)
		sleep(time.Second)
		require.True(t, l.isLost())
	})
}

// After a lost connection everything may have changed.
func TestAllIsRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		var locks []*lock
		for i := range 1000 {
			locks = append(locks, b.hold(fmt.Sprint(i)))
		}
		sleep(time.Second)
		require.Len(t, b.took(), 1000)
		b.change(func() { clear(b.tracked) })
		for i := range 10 {
			b.set(fmt.Sprint(i), "foreign", ttl)
		}
		b.hub.OnInvalidations(nil)
		sleep(10 * time.Millisecond)
		require.Len(t, b.took(), 1000)
		require.True(t, locks[9].isLost())
		require.False(t, locks[10].isLost())
	})
}

// hasty is a lock that ends when the Hub is just about to be told of its keys, after its version was asked
// for.
type hasty struct {
	*lock
	asked bool
	once  sync.Once
	end   func()
}

func (h *hasty) Version() (terms.Version, bool) {
	h.asked = true
	return h.lock.Version()
}

func (h *hasty) Keys() []string {
	if h.asked {
		h.once.Do(h.end)
	}
	return h.lock.Keys()
}

// A lock that ends while it is read for the first time leaves nothing behind.
func TestRemoveDuringARead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		h := &hasty{lock: &lock{keys: []string{"a"}, monitor: b.Monitor}}
		h.end = func() { b.Remove(h) }
		b.Add(h)
		sleep(time.Second)
		require.Zero(t, b.hub.Holding())
	})
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.hold("a")
		b.change(func() { b.during = func(string) { b.Remove(l) } })
		sleep(time.Second)
		b.tell("a")
		sleep(time.Hour)
		require.Equal(t, []string{"a@20"}, b.took())
		require.Zero(t, b.hub.Holding())
	})
}

// Adding, removing and telling at once is safe, and whatever is added is read.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				key := fmt.Sprint(i)
				for range 50 {
					l := b.hold(key)
					time.Sleep(time.Duration(i) * 3 * time.Millisecond)
					b.tell(key)
					b.Remove(l)
				}
				l := b.hold(key)
				time.Sleep(25 * time.Millisecond)
				b.set(key, "foreign", ttl)
				time.Sleep(25 * time.Millisecond)
				if !l.isLost() {
					t.Error("a loss was not noticed")
				}
			})
		}
		group.Wait()
		require.NotEmpty(t, slices.Compact(b.took()))
	})
}
