package registry_test

import (
	"math/rand/v2"
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
	entry registry.Entry
}

func newItem(end clock.Instant) *item { return &item{end: end} }

func (i *item) Deadline() clock.Instant { return i.end }
func (i *item) Entry() *registry.Entry  { return &i.entry }

func newRegistry() *registry.Registry[*item] {
	var r registry.Registry[*item]
	r.Init(func([]*item) {})
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

// A Registry has what a map would have, whatever is added and removed, twice and after it is over too.
func TestRegistryIsASet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			r := newRegistry()
			added := map[*item]bool{}
			var items []*item
			for range 3000 {
				switch random.IntN(8) {
				case 0, 1, 2:
					items = append(items, newItem(clock.Now().After(time.Duration(random.IntN(2000))*time.Millisecond)))
					r.Add(items[len(items)-1])
					added[items[len(items)-1]] = true
				case 3, 4:
					if len(items) > 0 {
						gone := items[random.IntN(len(items))]
						r.Remove(gone)
						delete(added, gone)
						require.Zero(t, gone.entry)
					}
				case 5:
					if len(items) > 0 {
						again := items[random.IntN(len(items))]
						r.Add(again)
						added[again] = true
					}
				case 6:
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				case 7:
					requireSame(t, r, added, items)
				}
			}
		})
	}
}

// requireSame fails unless r has each item that is in added and not over, once, and no other than those in
// added.
func requireSame(t *testing.T, r *registry.Registry[*item], added map[*item]bool, items []*item) {
	t.Helper()
	has := map[*item]bool{}
	for _, i := range r.All() {
		require.False(t, has[i], "it is there twice")
		require.True(t, added[i])
		has[i] = true
	}
	valid := 0
	for _, i := range items {
		if added[i] && i.end > clock.Now() {
			require.True(t, has[i])
			valid++
		}
		if !has[i] {
			require.Zero(t, i.entry)
		}
	}
	require.Equal(t, valid, r.Count())
}

// When most Items have gone, so has the memory that they needed.
func TestMemoryOfWhatHasGone(t *testing.T) {
	t.Parallel()
	const most, left = 100_000, 1000
	r := newRegistry()
	items := make([]*item, most)
	for i := range items {
		items[i] = newItem(clock.Never)
		r.Add(items[i])
	}
	require.GreaterOrEqual(t, r.Room(), most)
	for _, gone := range items[left:] {
		r.Remove(gone)
	}
	require.ElementsMatch(t, items[:left], r.All())
	require.LessOrEqual(t, r.Room(), 5*left+16*64)
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
