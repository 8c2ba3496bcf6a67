package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

func TestHandOver(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	deadline := asked.Add(deadLease - 3*time.Millisecond)
	for name, test := range map[string]struct {
		passedOn time.Duration // after asked
		still    bool
		cause    error
		want     string
	}{
		"at once":              {deadLease, false, rlock.ErrExpired, ""},
		"on a busy machine":    {deadLease + slack, false, rlock.ErrExpired, ""},
		"too late":             {deadLease + slack + 1, false, rlock.ErrExpired, "it took 3.5"},
		"too early":            {deadLease - 4*time.Millisecond, false, rlock.ErrExpired, "1ms before the deadline"},
		"two believe it":       {deadLease, true, rlock.ErrExpired, "still believed"},
		"the lease went on":    {deadLease, false, nil, "the Context ended with <nil>"},
		"the lock was removed": {deadLease, false, rlock.ErrLost, "the Context ended with rlock: lock was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			err := handOver{at: asked.Add(test.passedOn), still: test.still}.wrong(asked, deadline, test.cause)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

func TestLateRelease(t *testing.T) {
	t.Parallel()
	require.NoError(t, lateRelease(rlock.ErrExpired, true))
	require.ErrorContains(t, lateRelease(rlock.ErrExpired, false), "lost the lock")
	require.ErrorContains(t, lateRelease(rlock.ErrReleased, true), "rlock: lock was released")
	require.ErrorContains(t, lateRelease(nil, true), "<nil>")
}
