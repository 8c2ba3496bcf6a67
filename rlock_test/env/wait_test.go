package env_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// failing is a test whose failure is noted, and ends its goroutine.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper() {}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func (f *failing) FailNow() { runtime.Goexit() }

// fails runs test, and reports whether it has failed, and how long that took.
func fails(t *testing.T, test func(t testing.TB)) (failed bool, took time.Duration) {
	f, began, ended := &failing{TB: t}, time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.failed, time.Since(began)
}

// What waits has its bounds. A machine that stands still, so that one look takes seconds, does not use them
// up.
func TestWaitsHaveBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, took := fails(t, func(t testing.TB) { env.Soon(t, func() bool { return false }, "never") })
		require.True(t, failed)
		require.InDelta(t, 10*time.Second, took, float64(100*time.Millisecond))
		failed, took = fails(t, func(t testing.TB) { env.Receive(t, make(chan int)) })
		require.True(t, failed)
		require.InDelta(t, time.Minute, took, float64(100*time.Millisecond))

		looks := 0
		failed, took = fails(t, func(t testing.TB) {
			env.Soon(t, func() bool {
				time.Sleep(3 * time.Second)
				looks++
				return looks == 20
			}, "at last")
		})
		require.False(t, failed)
		require.Greater(t, took, 59*time.Second)
	})
}

func TestGate(t *testing.T) {
	passed := make(chan struct{})
	for name, open := range map[string]func(*env.Gate){"opened": (*env.Gate).Open,
		"by the end of the test": func(*env.Gate) {}} {
		t.Run(name, func(t *testing.T) {
			gate := env.NewGate(t)
			go func() {
				gate.Pass()
				passed <- struct{}{}
			}()
			gate.Await(t)
			require.Empty(t, passed)
			open(gate)
		})
		env.Receive(t, passed)
	}
}
