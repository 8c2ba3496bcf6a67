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

func TestStateInWords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state        rlock.State
		text, logged string
	}{
		"free": {
			rlock.State{Key: "job"},
			`lock "job": free`, `v.key=job v.held=false`,
		},
		"held": {
			rlock.State{Key: "job", Held: true, Token: "secret", Left: 1500 * time.Millisecond, Cached: true},
			`lock "job": held, 1.5s left`, `v.key=job v.held=true v.left=1.5s`,
		},
		"held by somebody who says so, without a lease": {
			rlock.State{Key: "job", Held: true, Token: "secret", Left: rlock.NoExpiry, Owner: "web-3\npid 7"},
			`lock "job": held by "web-3\npid 7", never expires`, `v.key=job v.held=true v.owner="web-3\npid 7" v.left="never expires"`,
		},
		"a long key of any bytes": {
			rlock.State{Key: "\xff" + strings.Repeat("k", 1<<16)},
			`lock "\xff` + strings.Repeat("k", 79) + `"…: free`, `v.key="\"\\xff` + strings.Repeat("k", 79) + `\"…" v.held=false`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
				require.Equal(t, test.text, fmt.Sprintf(verb, test.state))
			}
			require.Equal(t, test.logged, logged(test.state))
		})
	}
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
