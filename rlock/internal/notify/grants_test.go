package notify_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

func TestReadGrant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]notify.Grant{
		"20000 7 3 3 job 9f0c": {Key: "job", Token: "9f0c", Fence: 7, Lease: 20 * time.Second,
			Waiting: 3},
		"1 0 0 0  t": {Token: "t", Lease: time.Millisecond},
		"5 9007199254740992 0 4 a b  t u ": {Key: "a b ", Token: "t u ", Fence: 1 << 53,
			Lease: 5 * time.Millisecond},
		"5 1 0 5 \x00\xff 9\n %s": {Key: "\x00\xff 9\n", Token: "%s",
			Fence: 1, Lease: 5 * time.Millisecond},
		"9223372036854 1 2147483647 1 k t": {Key: "k", Token: "t", Fence: 1,
			Lease: math.MaxInt64 / time.Millisecond * time.Millisecond, Waiting: math.MaxInt32},
		"10 1 0 " + fmt.Sprint(1<<16) + strings.Repeat(" ", 1<<16+2) +
			"t": {Key: strings.Repeat(" ", 1<<16), Token: "t", Fence: 1, Lease: 10 * time.Millisecond},
	} {
		got, ok := notify.ReadGrant(text)
		require.True(t, ok, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
	for _, text := range []string{
		"", " ", "x", "20000", "20000 ", "20000 7 3 3", "20000 7 3 3 ", "20000 7 3 3 job", "20000 7 3 3 job ",
		"20000 7 3 3 jo 9f0c",
		"20000 7 3 4 job 9f0c", "20000 7 3 9 job 9f0c", "20000 7 3 8 job 9f0c", "20000 7 3 7 job 9f0c",
		"0 7 3 3 job 9f0c",
		"-1 7 3 3 job 9f0c", "+1 7 3 3 job 9f0c", "1 -7 3 3 job 9f0c", "1 7 -3 3 job 9f0c", "1 7 3 -3 job 9f0c",
		"1 7 3 -1 job 9f0c",
		"1e3 7 3 3 job 9f0c", " 1 7 3 3 job 9f0c", "1  7 3 3 job 9f0c", "1 7 3 3  job 9f0c",
		"9223372036855 7 3 3 job 9f0c",
		"1 7 2147483648 3 job 9f0c", "1 99999999999999999 3 3 job 9f0c", "1 7 3 9999999999999999 job 9f0c",
		"1 7 3 99999999999999999999999999 job 9f0c", "20000 7 3 token of an older form", "beat", "beat token",
		"share 1 7 3 3 job 9f0c",
	} {
		_, ok := notify.ReadGrant(text)
		require.False(t, ok, "%q", text)
	}
}

// What is read says what was written, and nothing else is read.
func FuzzReadGrant(f *testing.F) {
	for _, text := range []string{
		"20000 7 3 3 job 9f0c", "1 0 0 0  t", "5 1 0 4 a b  t u", "x", "beat 20000 7 3 3 job 9f0c",
		"1 7 3 9999999999999999 job 9f0c", "01 1 1 1 k t",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, ok := notify.ReadGrant(text)
		if !ok {
			require.Zero(t, g)
			return
		}
		require.NotEmpty(t, g.Token)
		require.True(t, g.Lease >= time.Millisecond && g.Waiting >= 0)
		written := fmt.Sprintf("%d %d %d %d %s %s", g.Lease.Milliseconds(), g.Fence, g.Waiting, len(g.Key), g.Key,
			g.Token)
		again, ok := notify.ReadGrant(written)
		require.True(t, ok)
		require.Equal(t, g, again)
		require.LessOrEqual(t, len(written), len(text)) // shorter, if a number began with zeros
		require.True(t, strings.HasSuffix(text, fmt.Sprintf(" %s %s", g.Key, g.Token)))
	})
}

// message is one about the key k.
func message(token string, fence uint64) string {
	return fmt.Sprintf("20000 %d 1 1 k %s", fence, token)
}

func grant(token string, fence uint64) notify.Grant {
	return notify.Grant{Key: "k", Token: token, Fence: fence, Lease: 20 * time.Second, Waiting: 1}
}

// strays are grants that nobody expected.
type strays struct {
	mu   sync.Mutex
	list []notify.Grant
}

func (s *strays) add(g notify.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, g)
}

func (s *strays) all() []notify.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]notify.Grant{}, s.list...)
}

// is waits until the strays are these.
func (s *strays) is(t *testing.T, want ...notify.Grant) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.all()) >= len(want) }, 10*time.Second, time.Millisecond)
	require.Equal(t, want, s.all())
}

// silent is the client of a server that says nothing.
type silent struct{ rueidis.Client }

func (silent) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// named gives all keys one channel.
func named(channel string) func(string) string { return func(string) string { return channel } }

// hearing returns Grants that hear only what the test says.
func hearing(t *testing.T) (*notify.Grants, *strays) {
	s := &strays{}
	g := notify.NewGrants(t.Context(), silent{}, named("channel"), s.add)
	t.Cleanup(g.Close)
	return g, s
}

// woken reports whether Wake receives now.
func woken(e *notify.Expected) bool {
	select {
	case <-e.Wake():
		return true
	default:
		return false
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	t.Run("a grant is taken once", func(t *testing.T) {
		t.Parallel()
		g, strays := hearing(t)
		e := g.Expect("t")
		require.False(t, woken(e))
		g.Hear(message("t", 7))
		require.True(t, woken(e))
		got, ok := e.Take()
		require.True(t, ok)
		require.Equal(t, grant("t", 7), got)
		_, ok = e.Take()
		require.False(t, ok)
		require.False(t, woken(e))
		e.Taken()
		g.Expect("u").Taken()
		require.Empty(t, strays.all())
	})
	t.Run("a grant that is said twice is one", func(t *testing.T) {
		t.Parallel()
		g, _ := hearing(t)
		e := g.Expect("t")
		g.Hear(message("t", 7))
		g.Hear(message("t", 7))
		require.True(t, woken(e))
		require.False(t, woken(e))
		_, ok := e.Take()
		require.True(t, ok)
		_, ok = e.Take()
		require.False(t, ok)
		g.Hear(message("t", 7))
		require.True(t, woken(e), "the caller knows it and takes it again")
	})
	t.Run("what the process has already is ignored", func(t *testing.T) {
		t.Parallel()
		g, strays := hearing(t)
		e, other := g.Expect("t"), g.Expect("u")
		g.Over("t")
		g.Hear(message("t", 7))
		e.Taken()
		e.Taken()
		e.Abandon()
		g.Over("u")
		g.Hear(message("t", 8))
		telling, _ := g.Strays()
		require.False(t, telling, "its holder has learned of it by an answer")
		require.False(t, woken(other))
		_, ok := e.Take()
		require.False(t, ok)
		require.Empty(t, strays.all())
	})
	t.Run("a set waits for a key with the token by which it has another", func(t *testing.T) {
		t.Parallel()
		g, strays := hearing(t)
		g.Expect("t").Taken()
		e := g.Channel("l").Expect("l", "t")
		g.Hear(message("t", 7)) // of the key that it has
		require.False(t, woken(e))
		_, ok := e.Take()
		require.False(t, ok)
		e.Taken()
		g.Over("t")
		require.Zero(t, g.Kept())
		require.Empty(t, strays.all())
	})
	t.Run("what the process does not have is a stray", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g, strays := hearing(t)
			e, late, held := g.Expect("t"), g.Expect("u"), g.Expect("v")
			g.Hear(message("t", 7))
			e.Abandon()
			late.Abandon()
			e.Abandon()
			_, ok := e.Take()
			require.False(t, ok)
			held.Taken()
			g.Hear(message("v", 8))
			g.Over("v")
			time.Sleep(time.Hour) // a replica may have places that are so old
			synctest.Wait()
			require.Equal(t, []notify.Grant{grant("t", 7)}, strays.all())
			for i, token := range []string{"u", "v", "w"} {
				g.Hear(message(token, uint64(i)))
			}
			synctest.Wait()
			require.Equal(t, []notify.Grant{grant("t", 7), grant("u", 0), grant("v", 1), grant("w", 2)}, strays.all())
			require.Zero(t, g.Kept())
		})
	})
	t.Run("what is given away is no stray while a message may be under way", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g, strays := hearing(t)
			g.Expect("t").Taken()
			g.PassOn("t")
			g.PassOn("u")
			time.Sleep(59 * time.Second)
			g.Hear(message("t", 7))
			time.Sleep(2 * time.Second)
			g.Hear(message("t", 8))
			synctest.Wait()
			require.Equal(t, []notify.Grant{grant("t", 8)}, strays.all())
			require.Zero(t, g.Kept())
		})
	})
	t.Run("what is no grant is ignored", func(t *testing.T) {
		t.Parallel()
		g, strays := hearing(t)
		e := g.Expect("t")
		for _, text := range []string{"", "x", "20000 7 1 1 k", "20000 7 1 2 k t", "t"} {
			g.Hear(text)
		}
		telling, _ := g.Strays()
		require.False(t, telling)
		require.False(t, woken(e))
		require.Empty(t, strays.all())
	})
	t.Run("all are woken when the process listens again", func(t *testing.T) {
		t.Parallel()
		g, _ := hearing(t)
		var all []*notify.Expected
		for i := range 100 {
			all = append(all, g.Expect(fmt.Sprint(i)))
		}
		all[0].Taken()
		g.Confirm()
		require.False(t, woken(all[0]))
		for _, e := range all[1:] {
			require.True(t, woken(e))
			require.False(t, woken(e))
			_, ok := e.Take()
			require.False(t, ok)
		}
		late := g.Expect("late")
		require.False(t, woken(late))
		g.Confirm()
		g.Confirm()
		require.True(t, woken(late))
		require.False(t, woken(late))
	})
	t.Run("a stray may call back", func(t *testing.T) {
		t.Parallel()
		heard := make(chan notify.Grant)
		var g *notify.Grants
		g = notify.NewGrants(t.Context(), silent{}, named("channel"), func(stray notify.Grant) {
			g.Expect(stray.Token).Abandon()
			heard <- stray
		})
		defer g.Close()
		g.Expect("t").Abandon()
		g.Expect("u").Abandon()
		g.Hear(message("t", 7))
		g.Hear(message("u", 8)) // although the first is not done
		require.Equal(t, grant("t", 7), <-heard)
		require.Equal(t, grant("u", 8), <-heard)
	})
}

// Whatever comes at the same time, each grant is taken, or is a stray, and only one of both.
func TestGrantsAtOnce(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 500
	g, strays := hearing(t)
	var taken [callers]int
	var all sync.WaitGroup
	for i := range callers {
		expected := make(chan *notify.Expected)
		all.Go(func() {
			defer close(expected)
			for n := range rounds {
				e := g.Expect(fmt.Sprintf("%d.%d", i, n))
				expected <- e
				if n%3 == 0 {
					<-e.Wake()
				}
				if _, ok := e.Take(); ok {
					taken[i]++
				}
				e.Abandon()
			}
		})
		all.Go(func() {
			n := 0
			for range expected {
				g.Hear(message(fmt.Sprintf("%d.%d", i, n), 1))
				n++
			}
		})
	}
	all.Go(func() {
		for range rounds {
			g.Confirm()
		}
	})
	all.Wait()
	total := 0
	for _, n := range taken {
		total += n
	}
	require.Eventually(t, func() bool { return total+len(strays.all()) == callers*rounds }, 10*time.Second,
		time.Millisecond)
}

// A message costs no allocation, however many are expected.
func TestGrantsAllocations(t *testing.T) { // counts allocations: not in parallel
	g := notify.NewGrants(context.Background(), silent{}, named("channel"), func(notify.Grant) {})
	defer g.Close()
	for i := range 100_000 {
		g.Expect(fmt.Sprint("token ", i))
	}
	e := g.Expect("t")
	text := message("t", 7)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		g.Hear(text)
		<-e.Wake()
		if _, ok := e.Take(); !ok {
			t.Error("no grant")
		}
	}))
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { g.Expect("u").Taken() }), 2.0)
}

// A stranger cannot fill the memory, and what has come before is not lost.
func TestGrantsBoundStrays(t *testing.T) {
	t.Parallel()
	release, told := make(chan struct{}), 0
	done := make(chan struct{})
	const bound, more = 1 << 17, 10
	g := notify.NewGrants(t.Context(), silent{}, named("channel"), func(notify.Grant) {
		<-release
		if told++; told == bound+1 {
			close(done)
		}
	})
	defer g.Close()
	g.Expect("first").Abandon()
	g.Expect("t").Abandon()
	g.Hear(message("first", 1))
	require.Eventually(t, func() bool { telling, waiting := g.Strays(); return telling && waiting == 0 },
		10*time.Second, time.Millisecond)
	for range bound + more {
		g.Hear(message("t", 1))
	}
	_, waiting := g.Strays()
	require.Equal(t, bound, waiting)
	close(release)
	<-done
}

// A token that the server has taken out of the queue is not granted: who expects it asks.
func TestGone(t *testing.T) {
	t.Parallel()
	g, _ := hearing(t)
	e := g.Expect("token")
	g.Hear("beat other")
	require.Empty(t, e.Wake())
	g.Hear("beat token")
	require.Len(t, e.Wake(), 1)
	_, granted := e.Take()
	require.False(t, granted)
}

// When all keys may have changed, all who expect a grant ask the server, until nobody is told any more.
func TestGrantsAfterAFlush(t *testing.T) {
	t.Parallel()
	g, _ := hearing(t)
	h := notify.NewHub()
	l, other := h.Listen(), h.Listen()
	l.OnAll(g.Wake)
	other.OnAll(func() {})
	g.Expect("has it already").Taken()
	e := g.Expect("t")
	h.OnInvalidations(nil)
	require.True(t, woken(e))
	h.OnInvalidations([]rueidis.RedisMessage{})
	require.False(t, woken(e))
	l.OnAll(nil)
	h.OnInvalidations(nil)
	require.False(t, woken(e))
}
