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
	says(lock, `lock "job", fence `+fence+`: lock was released`, `v.key=job v.fence=`+fence+` v.state="lock was released"`)

	set, err := locker.AcquireAll(t.Context(), []string{"a", "b", "c"}, rlock.WithFence(false))
	require.NoError(t, err)
	says(set, `lock "a" and 2 more: held`, `v.key=a v.keys=3 v.state=held`)

	short, err := locker.Acquire(t.Context(), "short", rlock.WithTTL(time.Second), rlock.WithFence(false))
	require.NoError(t, err)
	env.Soon(t, func() bool { return !short.Valid() }, "the lease ends")
	says(short, `lock "short": no longer valid`, `v.key=short v.state="no longer valid"`)
}
