package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker that means another lock than the others is what the locks are there
// for: the money does not survive it, and the referee sees that.
func TestTransfersUnderDifferentLocks(t *testing.T) {
	t.Parallel()
	d, _ := open(t)
	var staff []*worker
	for number := 1; number <= workers; number++ {
		w, err := d.hire(number, fmt.Sprintf("%s%d:", d.server.lockPrefix(), number))
		require.NoError(t, err)
		t.Cleanup(w.close)
		staff = append(staff, w)
	}
	// What is lost may by chance be made elsewhere, so there are many rounds.
	for range 50 {
		require.NoError(t, together(t.Context(), staff, (*worker).work))
		total, err := d.bank.total(t.Context(), d.server.client)
		require.NoError(t, err)
		if total != opening*int64(len(d.bank.accounts)) {
			require.Positive(t, d.referee.overlaps.Load())
			return
		}
	}
	t.Fatal("the total is right without locks, so it proves nothing about them")
}

func TestWorkersStopTogether(t *testing.T) {
	t.Parallel()
	d := &demo{}
	staff := []*worker{{demo: d, number: 1}, {demo: d, number: 2}, {demo: d, number: 3}}
	broken := errors.New("broken")
	err := together(t.Context(), staff, func(w *worker, ctx context.Context) error {
		if w.number == 2 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	require.Equal(t, broken, err)
	require.NoError(t, together(t.Context(), staff, func(*worker, context.Context) error { return nil }))
}
