package registry_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/registry"
)

type item struct {
	end   clock.Instant
	entry registry.Entry[*item]
}

func newItem(end clock.Instant) *item { return &item{end: end} }

func (i *item) Deadline() clock.Instant       { return i.end }
func (i *item) Entry() *registry.Entry[*item] { return &i.entry }

func newRegistry() *registry.Registry[*item] {
	var r registry.Registry[*item]
	r.Init()
	return &r
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	require.Empty(t, r.All())
	a, b := newItem(clock.Never), newItem(clock.Never)
	r.Add(a)
	r.Add(b)
	r.Add(a)
	require.ElementsMatch(t, []*item{a, b}, r.All())
	r.Remove(a)
	r.Remove(a)
	require.Equal(t, []*item{b}, r.All())
}

// What nobody removes goes away when it is over, and what is not over stays: the Registry is
// never much larger than twice what is held.
func TestWhatIsOverGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		var lasting []*item
		for range 500 {
			lasting = append(lasting, newItem(clock.Never))
			r.Add(lasting[len(lasting)-1])
		}
		for range 100 {
			for range 100 {
				r.Add(newItem(clock.Now().After(time.Second)))
			}
			time.Sleep(time.Second)
		}
		require.Subset(t, r.All(), lasting)
		require.Less(t, len(r.All()), 500+100+16*(64+64), "10,000 were added that are over")
	})
}

// What is over is not counted, though nobody has taken it out.
func TestCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		require.Zero(t, r.Count())
		for i := range 100 {
			r.Add(newItem(clock.Now().After(time.Duration(i+1) * time.Second)))
		}
		r.Add(newItem(clock.Never))
		require.Equal(t, 101, r.Count())
		time.Sleep(30 * time.Second)
		require.Equal(t, 71, r.Count())
		require.Len(t, r.All(), 101)
	})
}

// BenchmarkCount is what a Stats costs while 10,000 locks are held.
func BenchmarkCount(b *testing.B) {
	r := newRegistry()
	for range 10_000 {
		r.Add(newItem(clock.Never))
	}
	for b.Loop() {
		r.Count()
	}
}

func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				i := newItem(clock.Never)
				r.Add(i)
				_, _ = r.All(), r.Count()
				r.Remove(i)
			}
		})
	}
	group.Wait()
	require.Empty(t, r.All())
}
