package events_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/events"
)

// observer does something with each event.
type observer func(int)

func (o observer) Observe(_ context.Context, e int) { o(e) }

func begun(t *testing.T, o observer) *events.List[int] {
	var l events.List[int]
	l.Begin(t.Context(), o)
	return &l
}

// Until the goroutine that began lets go, nobody else tells; after that, whoever delivers does.
func TestList(t *testing.T) {
	t.Parallel()
	var told []int
	l := begun(t, func(e int) { told = append(told, e) })
	l.Add(1)
	l.Deliver()
	require.Empty(t, told, "the goroutine that began is telling")
	l.Tell(true)
	require.Equal(t, []int{1}, told)
	l.Add(2)
	l.Deliver()
	require.Equal(t, []int{1}, told, "it has kept telling")
	l.Tell(false)
	require.Equal(t, []int{1, 2}, told)
	l.Add(3)
	l.Add(4)
	l.Deliver()
	require.Equal(t, []int{1, 2, 3, 4}, told)
}

// An observer that causes events is told of them after the present one.
func TestObserverCausesEvents(t *testing.T) {
	t.Parallel()
	var told []int
	var l *events.List[int]
	l = begun(t, func(e int) {
		if e < 3 {
			l.Add(e + 1)
			l.Deliver()
		}
		told = append(told, e)
	})
	l.Add(1)
	l.Tell(false)
	require.Equal(t, []int{1, 2, 3}, told)
}

// One goroutine at a time tells, and all events are told in order.
func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	const each = 200
	var told []int
	var causing sync.Mutex
	l := begun(t, func(e int) { told = append(told, e) })
	l.Tell(false)
	next := 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range each {
				causing.Lock()
				l.Add(next)
				next++
				causing.Unlock()
				l.Deliver()
			}
		})
	}
	group.Wait()
	l.Deliver()
	require.Len(t, told, 8*each)
	for i, e := range told {
		require.Equal(t, i, e)
	}
}

// A panic or runtime.Goexit for one event does not keep the others from being told, and the next
// caller can tell again.
func TestObserverPanics(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("of the observer") },
		"goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []int
			l := begun(t, func(e int) {
				told = append(told, e)
				if e == 1 {
					end()
				}
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				l.Add(1)
				l.Add(2)
				l.Tell(false)
			}()
			<-done
			require.Equal(t, []int{1, 2}, told)
			l.Add(3)
			l.Deliver()
			require.Equal(t, []int{1, 2, 3}, told)
		})
	}
}

// A panic for one subject does not keep those behind it from their turn.
func TestEach(t *testing.T) {
	t.Parallel()
	var done []int
	require.PanicsWithValue(t, "third", func() {
		events.Each([]int{1, 2, 3, 4}, func(n int) {
			done = append(done, n)
			switch n {
			case 2:
				panic("second")
			case 3:
				panic("third") // the last panic is the one that goes on
			}
		})
	})
	require.Equal(t, []int{1, 2, 3, 4}, done)
	events.Each(nil, func(int) { t.Error("there is none") })
}
