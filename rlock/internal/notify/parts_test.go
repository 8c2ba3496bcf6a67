package notify_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While the node of a slot does not answer, losses of locks of other slots are noticed at once, one after the
// other. What that node has is read again and again until it answers.
func TestSilentSlot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		b.change(func() { b.silent = 1 })
		there := b.hold("there@1")
		var here []*lock
		for _, key := range []string{"a@2", "b@2", "c@3", "d@3", "e@2"} {
			here = append(here, b.hold(key))
		}
		sleep(time.Second)
		for _, lock := range here {
			b.set(lock.keys[0], "foreign", ttl)
			sleep(5 * time.Millisecond)
			require.True(t, lock.isLost(), lock.keys[0])
			sleep(700 * time.Millisecond)
		}
		b.set("there@1", "foreign", ttl)
		sleep(time.Second)
		require.False(t, there.isLost())
		b.change(func() { b.silent = 0 })
		sleep(3 * time.Second)
		require.True(t, there.isLost())
		reads := slices.DeleteFunc(b.took(), func(read string) bool { return read[0] != 't' })
		require.LessOrEqual(t, len(reads), 5, "one after the other: %q", reads)
	})
}

// A lock whose keys are in several slots is lost as soon as one of them answers that its key is another's,
// although another slot does not answer. What changes while that one is waited for is noticed after that.
func TestLossOfALockOfSeveralSlots(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bench) {
		first, second, held := b.hold("a@1", "b@2", "c@2"), b.hold("d@3", "e@1"), b.hold("f@3", "g@2")
		sleep(time.Second)
		require.Len(t, b.took(), 7)
		b.change(func() { b.silent = 1 })
		b.set("c@2", "foreign", ttl)
		sleep(5 * time.Millisecond)
		require.True(t, first.isLost())
		require.Contains(t, b.after, first)

		b.renew(second)
		sleep(5 * time.Millisecond) // it is being read
		b.set("d@3", "foreign", ttl)
		sleep(2 * time.Second)
		require.True(t, second.isLost())
		require.Contains(t, b.after, second)

		b.set("f@3", "t", 5*time.Second)
		sleep(5 * time.Millisecond)
		require.LessOrEqual(t, held.deadline(), 5*time.Second, "the shortest lease of all keys counts")
		require.False(t, held.isLost())
	})
}

// Spurious messages about a lock of several keys, in one slot or in several, have it read ever more slowly,
// as those about a lock of one key do.
func TestReadInVainOfSeveralKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"a", "b", "c"}, {"a@1", "b@2", "c@3"}} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.change(func() { b.forgets = true })
			b.hold(keys...)
			sleep(10 * time.Second)
			require.Less(t, len(b.took()), 3*30)
			sleep(10 * time.Second)
			require.LessOrEqual(t, len(b.took()), 3*11)
			require.Positive(t, b.lefts)
		})
	}
}
