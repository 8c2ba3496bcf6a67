package api

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// logged returns what slog makes of v, without time, level and message.
func logged(v any) string {
	var text bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("", "v", v)
	_, line, _ := strings.Cut(text.String(), `msg="" `)
	return strings.TrimSpace(line)
}

func TestLockInWords(t *testing.T) {
	t.Parallel()
	locker := env.NewLocker(t, env.Start(t).Client(t))
	says := func(lock *rlock.Lock, text, inLog string) {
		t.Helper()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
			require.Equal(t, text, fmt.Sprintf(verb, lock))
		}
		require.Equal(t, inLog, logged(lock))
	}
	lock, err := locker.Acquire(t.Context(), "job")
	require.NoError(t, err)
	fence := fmt.Sprint(lock.Fence())
	says(lock, `lock "job", fence `+fence+`: held`, `v.key=job v.fence=`+fence+` v.state=held`)
	require.NoError(t, lock.Release(t.Context()))
	says(lock, `lock "job", fence `+fence+`: lock was released`,
		`v.key=job v.fence=`+fence+` v.state="lock was released"`)

	set, err := locker.AcquireAll(t.Context(), []string{"a", "b", "c"}, rlock.WithFence(false))
	require.NoError(t, err)
	says(set, `lock "a" and 2 more: held`, `v.key=a v.keys=3 v.state=held`)

	short, err := locker.Acquire(t.Context(), "short", rlock.WithTTL(3*time.Second), rlock.WithFence(false))
	require.NoError(t, err)
	env.Soon(t, func() bool { return time.Now().After(short.Deadline()) }, "the lease ends")
	says(short, `lock "short": no longer valid`, `v.key=short v.state="no longer valid"`)
}

// The text of a lock that is shared tells so, of the handle and of what the server says.
func TestSharesInWords(t *testing.T) {
	t.Parallel()
	locker := env.NewLocker(t, env.Start(t).Client(t), rlock.WithTTL(rlock.NoExpiry),
		rlock.WithUniqueToken(true))
	text := func(v any, want, inLog string) {
		t.Helper()
		require.Equal(t, want, fmt.Sprint(v))
		require.Equal(t, inLog, logged(v))
	}
	cached := func(key string) rlock.State {
		state, err := locker.Check(t.Context(), key)
		require.NoError(t, err)
		return state
	}
	reader, err := locker.AcquireShared(t.Context(), "data")
	require.NoError(t, err)
	fence := fmt.Sprint(reader.Fence())
	text(reader, `lock "data", fence `+fence+`, a reader's share: held`,
		`v.key=data v.fence=`+fence+` v.share="a reader's share" v.state=held`)
	require.Contains(t, cached("data").String(), `lock "data": shared, `)

	permit, err := locker.AcquirePermits(t.Context(), "slots", 3, 5)
	require.NoError(t, err)
	fence = fmt.Sprint(permit.Fence())
	text(permit, `lock "slots", fence `+fence+`, 3 of 5 permits: held`,
		`v.key=slots v.fence=`+fence+` v.share="3 of 5 permits" v.state=held`)
	require.Contains(t, cached("slots").String(), `lock "slots": shared, `)
}
