package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// serverError is an error as the client makes it of what a server says.
func serverError(t *testing.T, text string) error {
	t.Helper()
	wire := append([]byte{7: '-', 15: byte(len(text))}, text...)
	var m rueidis.RedisMessage
	require.NoError(t, m.CacheUnmarshalView(wire))
	require.EqualError(t, m.Error(), text)
	return m.Error()
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err       error
		outcome   remote.Outcome
		transient bool
	}{
		{nil, remote.Done, false},
		{serverError(t, "NOPERM no right"), remote.Refused, false},
		{serverError(t, "WRONGTYPE a list"), remote.Refused, false},
		{serverError(t, "OOM too much"), remote.Refused, false},
		{serverError(t, "READONLY a replica"), remote.Refused, false},
		{serverError(t, "LOADING the data"), remote.Refused, true},
		{serverError(t, "TRYAGAIN a slot moves"), remote.Refused, true},
		{serverError(t, "CLUSTERDOWN a failover"), remote.Refused, true},
		{serverError(t, "MASTERDOWN a failover"), remote.Refused, true},
		{&gen.ParamError{}, remote.Refused, false},
		{&gen.CrossSlotError{}, remote.Refused, false},
		{&gen.ReplyError{}, remote.Indeterminate, false}, // asked again, it would say the same
		{context.DeadlineExceeded, remote.Indeterminate, true},
		{context.Canceled, remote.Indeterminate, true},
		{rueidis.ErrClosing, remote.Indeterminate, true},
		{io.EOF, remote.Indeterminate, true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, remote.Indeterminate, true},
		{errors.New("of a hook of the client"), remote.Indeterminate, true},
	} {
		for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", test.err)} {
			if test.err == nil {
				err = nil
			}
			require.Equal(t, test.outcome, remote.OutcomeOf(err), "%v", err)
			require.Equal(t, test.transient, err != nil && remote.Transient(err), "%v", err)
		}
	}
}

func TestCombineSlots(t *testing.T) {
	t.Parallel()
	refused, loading := serverError(t, "NOPERM no right"), serverError(t, "LOADING the data")
	for _, test := range []struct {
		errs      []error
		outcome   remote.Outcome
		transient bool
		is        error
	}{
		{errs: []error{nil, nil}, outcome: remote.Done},
		{errs: []error{refused, loading}, outcome: remote.Refused, is: refused},
		{errs: []error{nil, refused}, outcome: remote.Indeterminate, is: refused},
		{errs: []error{loading, nil}, outcome: remote.Indeterminate, is: loading, transient: true},
		{errs: []error{refused, io.EOF, nil}, outcome: remote.Indeterminate, is: io.EOF, transient: true},
	} {
		replies := make([]gen.Reply[int64], len(test.errs))
		for i, err := range test.errs {
			replies[i].Err = err
		}
		err := remote.Combine(replies)
		require.ErrorIs(t, err, test.is, "%v", test.errs)
		require.Equal(t, test.outcome, remote.OutcomeOf(err), "%v", test.errs)
		require.Equal(t, test.transient, err != nil && remote.Transient(err), "%v", test.errs)
	}
}
