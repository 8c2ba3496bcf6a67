package rlockmongo

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	sent := time.Date(2030, time.May, 1, 12, 0, 0, 0, time.UTC)
	server := sent.Add(-3 * time.Hour) // the process's clock does not matter
	const ms, us = time.Millisecond, time.Microsecond
	for name, test := range map[string]struct{ roundTrip, later, earliest, latest time.Duration }{
		"at once":            {0, 0, 0, ms},
		"a long round trip":  {2000 * ms, 0, -200 * ms, 2201 * ms},
		"after a second":     {0, 1000 * ms, 900 * ms, 1101 * ms},
		"after five":         {0, 5000 * ms, 4500 * ms, 5501 * ms},
		"both":               {1000 * ms, 1000 * ms, 800 * ms, 2201 * ms},
		"a short round trip": {100 * us, 0, -10 * us, ms + 110*us},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			received := sent.Add(test.roundTrip)
			earliest, latest := reading{sent, received, server}.bounds(received.Add(test.later))
			require.Equal(t, test.earliest, earliest.Sub(server))
			require.Equal(t, test.latest, latest.Sub(server))
		})
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		monotonic, wall time.Duration
		want            bool
	}{
		"at once":                    {0, 0, false},
		"as long ago as may be":      {fresh, fresh, false},
		"longer ago":                 {fresh + 1, fresh + 1, true},
		"the machine was suspended":  {time.Second, time.Hour, true},
		"the wall clock went back":   {time.Second, -time.Hour, true},
		"the wall clock was slewed":  {time.Second, time.Second + time.Millisecond, false},
		"the wall clock stood still": {time.Second, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, stale(test.monotonic, test.wall))
		})
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	whole := time.Date(2030, time.May, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, whole.Add(time.Second), end(whole, time.Second).Time().UTC())
	require.Equal(t, whole.Add(1001*time.Millisecond), end(whole.Add(1), time.Second).Time().UTC())
	require.Equal(t, never, end(whole, rlock.NoExpiry).Time().UTC())
	longest := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
	require.Less(t, end(whole, longest), end(whole, rlock.NoExpiry), "no TTL ends as late")
}

// machine is a process: its clock shows anything, and goes faster or slower than that of its server, which in
// turn is apart from that of another server.
type machine struct {
	offset, server time.Duration
	rate           float64
}

var zero = time.Date(2030, time.May, 1, 12, 0, 0, 0, time.UTC)

// at is what the process's clock shows.
func (m machine) at(s time.Duration) time.Time {
	return zero.Add(m.offset + time.Duration(float64(s)*m.rate))
}

// read asks the server at s.
func (m machine) read(random *rand.Rand, s, roundTrip time.Duration) reading {
	answered := s + time.Duration(random.Int64N(int64(roundTrip)+1))
	return reading{m.at(s), m.at(s + roundTrip), zero.Add(m.server + answered).Truncate(time.Millisecond)}
}

// Two processes have different clocks, ask servers that differ, over a network that is slow at times. Neither
// takes a lease of the other for over before it is, nor much later.
func TestNoOverlap(t *testing.T) {
	t.Parallel()
	const slowest = 2 * time.Second
	for seed := range uint64(50_000) {
		random := rand.New(rand.NewPCG(seed, 0))
		upTo := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most) + 1)) }
		some := func() machine {
			return machine{
				offset: upTo(48*time.Hour) - 24*time.Hour,
				server: upTo(apart),
				rate:   1 + (random.Float64()*2-1)*0.00099,
			}
		}
		holder, rival := some(), some()
		began := upTo(time.Hour)
		ttl := max(upTo(10*time.Minute).Truncate(time.Millisecond), time.Millisecond)
		roundTrip := upTo(slowest)
		taken := began + roundTrip + upTo(fresh-slowest) // by then the holder counts its lease
		_, latest := holder.read(random, began, roundTrip).bounds(holder.at(taken))
		expires := end(latest, ttl).Time()

		roundTrip = upTo(slowest)
		asked := max(taken+ttl-upTo(fresh), 0)
		r := rival.read(random, asked, roundTrip)
		over := func(s time.Duration) bool {
			earliest, _ := r.bounds(rival.at(s))
			return !expires.After(earliest.Add(-apart).Truncate(time.Millisecond))
		}
		require.False(t, over(taken+ttl-1), "seed %d: the lease counts as over too early", seed)
		const most = 2*apart + 2*slowest + 4*fresh/drift + 10*time.Millisecond
		require.True(t, over(taken+ttl+most), "seed %d: the lease counts as held for too long", seed)
	}
}

func TestClockAsksRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		ahead := 5 * time.Hour
		c := newClock(func(context.Context) (time.Time, error) {
			asked.Add(1)
			time.Sleep(time.Millisecond)
			return time.Now().Add(ahead), nil
		})
		read := func(want int32) {
			t.Helper()
			over, latest, err := c.read(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, asked.Load())
			now := time.Now().Add(ahead)
			require.False(t, latest.Before(now))
			require.False(t, over.After(now.Add(-apart)))
			require.Less(t, latest.Sub(over), apart+2*time.Minute/drift+3*time.Millisecond)
		}
		for range 10 {
			go read(1)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		read(1)
		time.Sleep(fresh - 2*time.Second)
		read(1)
		time.Sleep(3 * time.Second)
		read(2)
		ahead = -time.Hour // another server, after a failure
		c.forget()
		read(3)
	})
}

// A slow answer says little, so the server is asked again.
func TestClockKeepsTheNarrowestReading(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		took   []time.Duration
		widest time.Duration
	}{
		"one is fast":      {[]time.Duration{time.Second, 5 * time.Millisecond}, 5 * time.Millisecond},
		"the second fails": {[]time.Duration{time.Second, -1}, time.Second},
		"all slow":         {[]time.Duration{3 * time.Second, time.Second, 2 * time.Second}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c := newClock(func(context.Context) (time.Time, error) {
					took := test.took[asked]
					asked++
					if took < 0 {
						return time.Time{}, errors.New("broken")
					}
					time.Sleep(took)
					return time.Now(), nil
				})
				over, latest, err := c.read(t.Context())
				require.NoError(t, err)
				require.Len(t, test.took, asked)
				drifted := 2 * 3 * time.Second / drift // at most, since the best of them was sent
				require.Less(t, latest.Sub(over), test.widest+apart+drifted+20*time.Millisecond)
			})
		})
	}
}

// Who waits for another call that asks is not held by it.
func TestClockWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		c := newClock(func(ctx context.Context) (time.Time, error) {
			<-ctx.Done()
			return time.Time{}, broken
		})
		first, cancel := context.WithCancel(t.Context())
		answer := make(chan error)
		go func() {
			_, _, err := c.read(first)
			answer <- err
		}()
		synctest.Wait()
		second, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, _, err := c.read(second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		require.ErrorIs(t, <-answer, broken)
		require.Empty(t, c.turn, "the next may ask")
	})
}
