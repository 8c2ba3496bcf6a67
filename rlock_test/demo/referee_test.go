package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// open returns a demo on the embedded server whose bank is open, and what it
// prints.
func open(t *testing.T) (*demo, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	d, err := newDemo(t.Context(), &out, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.close(context.Background())) })
	require.NoError(t, d.bank.open(t.Context(), d.server.client))
	return d, &out
}

func take(t *testing.T, d *demo, key string, opts ...rlock.Option) *rlock.Lock {
	t.Helper()
	locker, err := d.server.locker()
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	lock, err := locker.Acquire(t.Context(), key, opts...)
	require.NoError(t, err)
	d.referee.acquired(lock)
	return lock
}

// Each invariant fails when it is broken, alone, and so does the demo.
func TestTallyFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(t *testing.T, d *demo)
		want  string // "": all is well
	}{
		"nothing wrong": {
			func(t *testing.T, d *demo) {
				require.NoError(t, take(t, d, "a").Release(t.Context()))
				d.referee.enter(1, d.bank.accounts[0], d.bank.accounts[1])()
				d.referee.enter(2, d.bank.accounts[1], d.bank.accounts[0])()
			},
			"",
		},
		"money lost": {
			func(t *testing.T, d *demo) {
				require.NoError(t, setBalance(t.Context(), d.server.client, d.bank.accounts[3], opening-1))
			},
			"the total of all balances is still 1000: it is 999",
		},
		"money made": {
			func(t *testing.T, d *demo) {
				require.NoError(t, setBalance(t.Context(), d.server.client, d.bank.accounts[0], opening+5))
			},
			"the total of all balances is still 1000: it is 1005",
		},
		"two workers at one account": {
			func(t *testing.T, d *demo) {
				first := d.referee.enter(1, d.bank.accounts[0], d.bank.accounts[1])
				second := d.referee.enter(2, d.bank.accounts[2], d.bank.accounts[1])
				first()
				second()
				d.referee.enter(3, d.bank.accounts[1])()
			},
			"no account had two workers at it at the same time: there were 1 overlaps",
		},
		"the same fence again": {
			func(t *testing.T, d *demo) {
				lock := take(t, d, "a")
				d.referee.acquired(lock)
				require.NoError(t, lock.Release(t.Context()))
			},
			"every fence is above the one that its key had before: 1 are not, the first ",
		},
		"a fence below the one before": {
			func(t *testing.T, d *demo) {
				d.referee.fences[d.server.lockPrefix()+"a"] = 1 << 62
				require.NoError(t, take(t, d, "a").Release(t.Context()))
			},
			fmt.Sprintf(" after %d of demo:", uint64(1<<62)),
		},
		"no fence": {
			func(t *testing.T, d *demo) {
				require.NoError(t, take(t, d, "a", rlock.WithFence(false)).Release(t.Context()))
			},
			"the first 0 after 0 of demo:",
		},
		"a lock without a fence left": {
			func(t *testing.T, d *demo) {
				take(t, d, "forgotten", rlock.WithFence(false))
				d.referee.fallen = 0
			},
			":lock:forgotten",
		},
		"a lock left": {
			func(t *testing.T, d *demo) { take(t, d, "forgotten") },
			":lock:forgotten",
		},
		"a scene went wrong": {
			func(t *testing.T, d *demo) {
				d.referee.judge("the sky is blue", nil)
				d.referee.judge("the sky is green", errors.New("it is blue"))
			},
			"the sky is green: it is blue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, out := open(t)
			test.spoil(t, d)
			err := d.tally(t.Context())
			_, verdicts, found := strings.Cut(out.String(), "What must be true\n")
			require.True(t, found, out.String())
			if test.want == "" {
				require.NoError(t, err)
				require.NotContains(t, verdicts, "FAIL")
				require.Contains(t, verdicts, "ok: all 4 are true")
				return
			}
			require.ErrorContains(t, err, "1 of ")
			require.NotContains(t, verdicts, "ok:")
			var failed []string
			for line := range strings.Lines(verdicts) {
				if strings.Contains(line, "FAIL") {
					failed = append(failed, line)
				}
			}
			require.Len(t, failed, 1)
			require.Contains(t, failed[0], test.want)
		})
	}
}

func TestTallyOfABankThatIsGone(t *testing.T) {
	t.Parallel()
	d, _ := open(t)
	require.NoError(t, d.server.delete(t.Context(), d.bank.keys()[:1]))
	require.Error(t, d.tally(t.Context()), "what cannot be checked has not passed")
}
