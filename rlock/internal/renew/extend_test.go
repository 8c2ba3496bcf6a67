package renew_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Each answer goes to the item that it is about, when its call returns.
func TestAnswersComeApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newSchedule(t.Context()), time.Now()
		defer s.Close()
		s.extend = func(_ context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
			for i := len(list) - 1; i >= 0; i-- { // the last one first
				answered([]int{i}, []wire.Extended{{Lost: list[i].TTL.String()}})
				if i > 0 {
					time.Sleep(time.Second)
				}
			}
		}
		first, second := s.add(30*time.Second), s.add(31*time.Second)
		ended := s.add(30 * time.Second)
		ended.ends = true
		s.sleep(10500 * time.Millisecond)
		require.Empty(t, first.answers)
		require.Equal(t, []wire.Extended{{Lost: "31s"}}, second.answers)
		require.Equal(t, 0, first.settled)
		require.Equal(t, 1, second.settled)
		require.Equal(t, 1, ended.settled, "its end is to be told")
		require.Equal(t, []float64{10}, since(start, ended.extended))
		s.sleep(time.Second)
		require.Equal(t, []wire.Extended{{Lost: "30s"}}, first.answers)
		require.Equal(t, 1, first.settled)
		require.Empty(t, ended.answers)
		require.Equal(t, 1, s.rounds)
	})
}

// User code may end the goroutine of an extension: each item has its answer all the same, or one that says
// that there is none, and is told of.
func TestExtensionIsInterrupted(t *testing.T) {
	t.Parallel()
	confirm := func(list []wire.Extension, answered func([]int, []wire.Extended)) {
		answer(list, answered, wire.Extended{})
	}
	for name, c := range map[string]struct {
		quits   [3]string
		extend  func(list []wire.Extension, answered func([]int, []wire.Extended))
		answers [3][]error
	}{
		"in the call": {
			extend:  func([]wire.Extension, func([]int, []wire.Extended)) { runtime.Goexit() },
			answers: [3][]error{{wire.ErrInterrupted}, {wire.ErrInterrupted}, {wire.ErrInterrupted}},
		},
		"in one of many": {
			extend: func(list []wire.Extension, answered func([]int, []wire.Extended)) {
				confirm(list[:1], answered)
			},
			answers: [3][]error{{nil}, {wire.ErrInterrupted}, {wire.ErrInterrupted}},
		},
		"in one Settle": {quits: [3]string{"Settle"}, extend: confirm, answers: [3][]error{{nil}, {nil}, {nil}}},
		"in every Settle": {quits: [3]string{"Settle", "Settle", "Settle"}, extend: confirm,
			answers: [3][]error{{nil}, {nil}, {nil}}},
		"in a Begin": {
			quits: [3]string{"", "Begin"}, extend: confirm,
			answers: [3][]error{{wire.ErrInterrupted}, nil, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSchedule(t.Context())
				defer s.Close()
				s.extend = func(_ context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
					c.extend(list, answered)
				}
				var items [3]*item
				for i := range items {
					items[i] = s.add(30*time.Second + time.Duration(i))
					items[i].quits = c.quits[i]
				}
				s.sleep(10500 * time.Millisecond)
				for i, item := range items {
					var errs []error
					for _, answer := range item.answers {
						errs = append(errs, answer.Err)
					}
					require.Equal(t, c.answers[i], errs, i)
					require.Len(t, item.extended, item.settled, "whoever has begun is told of")
				}
			})
		})
	}
}

// If all items have ended, the server is not asked.
func TestNothingToExtend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(t.Context())
		defer s.Close()
		i := s.add(30 * time.Second)
		i.ends = true
		s.sleep(time.Minute)
		require.Zero(t, s.rounds)
		require.NotEmpty(t, i.extended)
		require.Equal(t, len(i.extended)+1, i.settled, "and when it is over")
	})
}

// A call has time until the last of its leases ends, and not beyond the background.
func TestCallsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plan  func(s *fixture, stop func())
		after []float64 // the start of the call
	}{
		"with the last lease": {func(s *fixture, _ func()) { s.add(30 * time.Second); s.add(33 * time.Second) },
			[]float64{23, 23}},
		"with the background": {func(s *fixture,
			stop func()) {
			s.add(30 * time.Second)
			time.AfterFunc(11*time.Second, stop)
		}, []float64{1}},
		"not at once": {func(s *fixture, _ func()) {
			s.Add(&item{fixture: s, ttl: time.Hour}, in(10*time.Second), in(10*time.Second+time.Millisecond))
		}, []float64{0.05}},
		"never by itself": {func(s *fixture, stop func()) {
			s.Add(&item{fixture: s, ttl: time.Hour}, in(10*time.Second), clock.Never)
			time.AfterFunc(20*time.Second, stop)
		}, []float64{10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				background, stop := context.WithCancel(t.Context())
				defer stop()
				s := newSchedule(background)
				defer s.Close()
				start := time.Now()
				var ends []float64
				s.extend = func(ctx context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
					if time.Since(start) > 10*time.Second {
						return // another round
					}
					<-ctx.Done()
					s.mu.Lock()
					defer s.mu.Unlock()
					for range list {
						ends = append(ends, time.Since(start).Seconds()-10)
					}
				}
				test.plan(s, stop)
				s.sleep(time.Minute)
				require.InDeltaSlice(t, test.after, ends, 1e-6)
			})
		})
	}
}

// An error is not a loss: the extension is made again soon.
func TestErrorsAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newSchedule(t.Context()), time.Now()
		defer s.Close()
		s.extend = func(_ context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
			if s.rounds < 3 {
				answer(list, answered, wire.Extended{Err: errors.New("LOADING")})
				return
			}
			answer(list, answered, wire.Extended{})
		}
		i := s.add(6 * time.Second)
		s.sleep(5 * time.Second)
		require.Equal(t, []float64{2, 2.3, 2.6, 4.6}, since(start, i.extended))
	})
	for ttl, pause := range map[time.Duration]time.Duration{
		time.Millisecond: 10 * time.Millisecond,
		6 * time.Second:  300 * time.Millisecond,
		time.Hour:        time.Second,
		clock.NoExpiry:   time.Second,
	} {
		require.Equal(t, pause, renew.RetryPause(ttl))
	}
}
