package front_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/front"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// lock is a lock of this process that others wait behind.
type lock struct {
	deadline clock.Instant
	renewed  bool
	silent   bool // Look gets no answer
	panics   any  // what Look panics with when it has taken 100 ms; nil: nothing
	looks    int
	watched  []time.Duration // since began
	began    clock.Instant
}

func (l *lock) Deadline() clock.Instant     { return l.deadline }
func (l *lock) Over(now clock.Instant) bool { return l.deadline <= now }
func (l *lock) Renewed() bool               { return l.renewed }

func (l *lock) Look(ctx context.Context) (remote.Holder, error) {
	l.looks++
	if l.silent {
		<-ctx.Done()
	}
	if l.panics != nil {
		time.Sleep(100 * time.Millisecond)
		panic(l.panics)
	}
	return remote.Holder{}, nil
}

func (l *lock) Watch() {
	if l != nil {
		l.watched = append(l.watched, time.Duration(clock.Now()-l.began))
	}
}

type hears bool

func (h hears) Heard() bool { return bool(h) }

type (
	ticket  = queue.Ticket[string, string, *lock]
	waiting = front.Waiting[string, string, *lock]
)

// behind returns a queue, and the ticket of a lock with a lease, behind which others are.
func behind(l *lock, lease time.Duration, tickets ...*ticket) (*queue.Queue[string, string, *lock], *ticket) {
	q := queue.New[string, string, *lock](time.Hour)
	first := &ticket{}
	now := clock.Now()
	l.deadline, l.began = now.After(lease), now
	q.Join(first, "job", "", now)
	first.Hold(l, now)
	for _, t := range tickets {
		q.Join(t, "job", "", now)
	}
	return q, first
}

// A waiter has the holder watched when it has waited for long, and not before. If nobody tells of a
// loss, it asks about the holder every second, unless the lease is extended or another is between.
func TestAwait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait    time.Duration
		lease   time.Duration
		hears   front.Hears
		renewed bool
		second  bool // the waiter stands behind another
		looks   int
		watched []time.Duration
	}{
		"not for long":       {wait: 19 * time.Millisecond, lease: time.Hour, looks: 1},
		"for long":           {wait: time.Second / 2, lease: time.Hour, looks: 1, watched: []time.Duration{queue.WatchAfter}},
		"with a short lease": {wait: 19 * time.Millisecond, lease: 15 * time.Millisecond, looks: 1, watched: []time.Duration{15 * time.Millisecond}},
		"for seconds":        {wait: 3500 * time.Millisecond, lease: time.Hour, looks: 4, watched: []time.Duration{queue.WatchAfter}},
		"it hears":           {wait: 3500 * time.Millisecond, lease: time.Hour, hears: hears(true), watched: []time.Duration{queue.WatchAfter}},
		"it may hear":        {wait: 3500 * time.Millisecond, lease: time.Hour, hears: hears(false), looks: 4, watched: []time.Duration{queue.WatchAfter}},
		"renewed":            {wait: 3500 * time.Millisecond, lease: time.Hour, renewed: true, watched: []time.Duration{queue.WatchAfter}},
		"behind another":     {wait: 3500 * time.Millisecond, lease: time.Hour, second: true, watched: []time.Duration{queue.WatchAfter}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, other, own := &lock{renewed: c.renewed}, &ticket{}, &ticket{}
				tickets := []*ticket{own}
				if c.second {
					tickets = []*ticket{other, own}
				}
				behind(l, c.lease, tickets...)
				now := clock.Now()
				end := now.After(c.wait)
				_, ready, err := waiting{own, nil, c.hears, clock.Never}.Await(t.Context(), now, end, c.lease)
				require.NoError(t, err)
				require.Equal(t, queue.Behind, ready)
				require.Equal(t, end, clock.Now())
				require.Equal(t, c.looks, l.looks)
				require.Equal(t, c.watched, l.watched)
			})
		})
	}
}

// A waiter is called at once when the lock is handed to it, and when it is the front. It ends with its
// context, and when it is stopped.
func TestReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    func(first *ticket, cancel, stop func())
		grant string
		ready queue.Readiness
		err   error
	}{
		"handed over": {do: func(first *ticket, _, _ func()) {
			o, _ := first.Offer(false, clock.Now())
			o.Grant("token")
		}, grant: "token", ready: queue.HandedOver},
		"front":   {do: func(first *ticket, _, _ func()) { first.Leave() }, ready: queue.Front},
		"context": {do: func(_ *ticket, cancel, _ func()) { cancel() }, err: context.Canceled},
		"stopped": {do: func(_ *ticket, _, stop func()) { stop() }, err: clock.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				own, stopped := &ticket{}, make(chan struct{})
				_, first := behind(&lock{}, time.Hour, own)
				start := time.Now()
				go func() {
					time.Sleep(300 * time.Millisecond)
					c.do(first, cancel, func() { close(stopped) })
				}()
				now := clock.Now()
				g, ready, err := waiting{own, stopped, nil, clock.Never}.Await(ctx, now, now.After(time.Minute), time.Hour)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.ready, ready)
				require.Equal(t, c.grant, g)
				require.Less(t, time.Since(start), 1100*time.Millisecond) // when it is stopped, nobody calls Wake here
			})
		})
	}
}

// A panic during the question ends the call that waits, and nothing if that has gone on meanwhile.
func TestLookPanics(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"it waits": false, "it has gone on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				own := &ticket{}
				_, first := behind(&lock{panics: "observer"}, time.Hour, own)
				now := clock.Now()
				await := func() {
					_, ready, err := waiting{own, nil, nil, clock.Never}.Await(t.Context(), now, now.After(time.Minute), time.Hour)
					require.NoError(t, err)
					require.Equal(t, queue.Front, ready)
				}
				if !gone {
					require.PanicsWithValue(t, "observer", await)
					return
				}
				time.AfterFunc(1050*time.Millisecond, func() { first.Leave() })
				await()
				time.Sleep(time.Second) // it panics meanwhile
			})
		})
	}
}

// A question about the holder that gets no answer keeps a waiter from nothing.
func TestLookWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait  time.Duration
		ends  time.Duration                    // the wait of which that is a pause; 0: never
		do    func(first *ticket, stop func()) // 1500 ms after the beginning
		after time.Duration
		ready queue.Readiness
		err   error
	}{
		"the pause ends": {wait: 1700 * time.Millisecond, after: 1700 * time.Millisecond},
		"a short pause":  {wait: 300 * time.Millisecond, after: 2300 * time.Millisecond},
		"the wait ends":  {wait: 300 * time.Millisecond, ends: time.Second, after: time.Second},
		"no more pauses": {wait: 300 * time.Millisecond, ends: 300 * time.Millisecond, after: 300 * time.Millisecond},
		"handed over": {wait: time.Minute, do: func(first *ticket, _ func()) {
			o, _ := first.Offer(false, clock.Now())
			o.Grant("token")
		}, after: 1510 * time.Millisecond, ready: queue.HandedOver},
		"front":   {wait: time.Minute, do: func(first *ticket, _ func()) { first.Leave() }, after: 1510 * time.Millisecond, ready: queue.Front},
		"stopped": {wait: time.Minute, do: func(_ *ticket, stop func()) { stop() }, after: 1500 * time.Millisecond, err: clock.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				own, stopped := &ticket{}, make(chan struct{})
				q, first := behind(&lock{silent: true}, time.Hour, own)
				if c.do != nil {
					time.AfterFunc(1500*time.Millisecond, func() { c.do(first, func() { close(stopped); q.Wake() }) })
				}
				start, now := time.Now(), clock.Now()
				end := clock.Never
				if c.ends > 0 {
					end = now.After(c.ends)
				}
				_, ready, err := waiting{own, stopped, nil, end}.Await(t.Context(), now, now.After(c.wait), time.Hour)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.ready, ready)
				require.InDelta(t, c.after, time.Since(start), float64(20*time.Millisecond))
			})
		})
	}
}
