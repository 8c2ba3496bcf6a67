package rlockmongo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func labelled(label string) error { return mongo.CommandError{Code: 987_654, Labels: []string{label}} }

func TestRefused(t *testing.T) {
	t.Parallel()
	concern := &mongo.WriteConcernError{Code: 64, Name: "WriteConcernTimeout"}
	invalid := mongo.WriteError{Code: 121, Message: "Document failed validation"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no right":             {mongo.CommandError{Code: 13, Name: "Unauthorized"}, true},
		"wrapped":              {fmt.Errorf("more: %w", mongo.CommandError{Code: 13}), true},
		"validation":           {mongo.WriteException{WriteErrors: mongo.WriteErrors{invalid}}, true},
		"a code of tomorrow":   {mongo.CommandError{Code: 987_654, Name: "New"}, true},
		"no primary":           {mongo.CommandError{Code: 10107, Name: "NotWritablePrimary"}, false},
		"interrupted":          {mongo.CommandError{Code: 11601, Name: "Interrupted"}, false},
		"its own fault":        {mongo.CommandError{Code: 1, Name: "InternalError"}, false},
		"write conflict":       {mongo.CommandError{Code: 112, Name: "WriteConflict"}, false},
		"took too long":        {mongo.CommandError{Code: 50, Name: "MaxTimeMSExpired"}, false},
		"label":                {labelled("RetryableWriteError"), false},
		"label of transaction": {labelled("TransientTransactionError"), false},
		"broken connection":    {mongo.CommandError{Labels: []string{"NetworkError"}, Wrapped: io.EOF}, false},
		"of the driver":        {mongo.CommandError{Message: "it has no code"}, false},
		"not to a majority":    {mongo.WriteException{WriteConcernError: concern}, false},
		"invalid, and not to a majority": {mongo.WriteException{
			WriteErrors: mongo.WriteErrors{invalid}, WriteConcernError: &mongo.WriteConcernError{Code: 100},
		}, true},
		"disconnected": {mongo.ErrClientDisconnected, false},
		"ended":        {context.Canceled, false},
		"other":        {io.ErrUnexpectedEOF, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, refused(test.err))
		})
	}
}

// The error of the context is found, also when the driver has another for it.
func TestFailedHasTheErrorOfTheContext(t *testing.T) {
	t.Parallel()
	b := &Backend{clock: newClock(nil)}
	b.clock.last = &reading{}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the cause"))
	err := b.failed(ctx, io.EOF)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "rlockmongo: context canceled: EOF")
	require.EqualError(t, b.failed(ctx, context.Canceled), "rlockmongo: context canceled")
	require.NoError(t, b.failed(ctx, nil))
	require.NotNil(t, b.clock.last)
	require.EqualError(t, b.failed(t.Context(), io.EOF), "rlockmongo: EOF")
	require.Nil(t, b.clock.last, "the next call asks the server for its clock")
}
