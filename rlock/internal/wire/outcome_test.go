package wire_test

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

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
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
		outcome   wire.Outcome
		transient bool
	}{
		{nil, wire.Done, false},
		{serverError(t, "NOPERM no right"), wire.Refused, false},
		{serverError(t, "WRONGTYPE a list"), wire.Refused, false},
		{serverError(t, "OOM too much"), wire.Refused, false},
		{serverError(t, "READONLY a replica"), wire.Refused, false},
		{serverError(t, "LOADING the data"), wire.Refused, true},
		{serverError(t, "TRYAGAIN a slot moves"), wire.Refused, true},
		{serverError(t, "CLUSTERDOWN a failover"), wire.Refused, true},
		{serverError(t, "MASTERDOWN a failover"), wire.Refused, true},
		{&redislua.ParamError{}, wire.Refused, false},
		{&redislua.CrossSlotError{}, wire.Refused, false},
		{&redislua.ReplyError{}, wire.Indeterminate, false}, // asked again, it would say the same
		{context.DeadlineExceeded, wire.Indeterminate, true},
		{context.Canceled, wire.Indeterminate, true},
		{rueidis.ErrClosing, wire.Indeterminate, true},
		{io.EOF, wire.Indeterminate, true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, wire.Indeterminate, true},
		{errors.New("of a hook of the client"), wire.Indeterminate, true},
	} {
		for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", test.err)} {
			if test.err == nil {
				err = nil
			}
			require.Equal(t, test.outcome, wire.OutcomeOf(err), "%v", err)
			require.Equal(t, test.transient, err != nil && wire.Transient(err), "%v", err)
		}
	}
}

func TestCombineSlots(t *testing.T) {
	t.Parallel()
	refused, loading := serverError(t, "NOPERM no right"), serverError(t, "LOADING the data")
	for _, test := range []struct {
		errs      []error
		outcome   wire.Outcome
		transient bool
		is        error
	}{
		{errs: []error{nil, nil}, outcome: wire.Done},
		{errs: []error{refused, loading}, outcome: wire.Refused, is: refused},
		{errs: []error{nil, refused}, outcome: wire.Indeterminate, is: refused},
		{errs: []error{loading, nil}, outcome: wire.Indeterminate, is: loading, transient: true},
		{errs: []error{refused, io.EOF, nil}, outcome: wire.Indeterminate, is: io.EOF, transient: true},
	} {
		replies := make([]redislua.Reply[int64], len(test.errs))
		for i, err := range test.errs {
			replies[i].Err = err
		}
		err := wire.Combine(replies)
		require.ErrorIs(t, err, test.is, "%v", test.errs)
		require.Equal(t, test.outcome, wire.OutcomeOf(err), "%v", test.errs)
		require.Equal(t, test.transient, err != nil && wire.Transient(err), "%v", test.errs)
	}
}
