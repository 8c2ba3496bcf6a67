package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type lock struct{ fence uint64 }

func (l lock) Key() string   { return "key" }
func (l lock) Token() string { return "token" }
func (l lock) Fence() uint64 { return l.fence }

func TestGuards(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkHeld("S", "lock", lock{}))
	require.EqualError(t, checkHeld("S", "lock", nil), "runtime: S: lock: the lock is nil; the script runs only while a lock is held")

	require.NoError(t, checkShared("S", "lock", lock{fence: 7}))
	require.Equal(t, "rlock:readers 7", sharedValue(lock{fence: 7}))
	require.EqualError(t, checkShared("S", "lock", nil), "runtime: S: lock: the lock is nil; the script runs only while readers share a lock")
	require.EqualError(t, checkShared("S", "lock", lock{}), "runtime: S: lock: the lock has no fence, so it is no reader's share")

	text, err := encodeFence("S", "fence", lock{fence: 1 << 53})
	require.NoError(t, err)
	require.Equal(t, "9007199254740992", text)
	_, err = encodeFence("S", "fence", lock{fence: 1<<53 + 1})
	require.EqualError(t, err, "runtime: S: fence: the fence is above 2^53, and the script, whose numbers are doubles, could not tell it from its neighbours")
	_, err = encodeFence("S", "fence", nil)
	require.EqualError(t, err, "runtime: S: fence: the lock is nil; the script compares its fence")
	_, err = encodeFence("S", "fence", lock{})
	require.EqualError(t, err, "runtime: S: fence: the lock was taken without a fence")
}
