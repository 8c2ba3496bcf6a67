package generator

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
)

// fake answers Check and has no other call.
type fake struct {
	gen.Caller
	holder string
}

func (f fake) Check(_ context.Context, _ rueidis.Client, p gen.CheckParams) (redislua.Null[string], error) {
	return redislua.Null[string]{V: f.holder + " of " + p.Lock, Valid: f.holder != ""}, nil
}

// owner is code under test: it takes the calls as an interface.
func owner(ctx context.Context, scripts gen.Caller, lock string) (string, error) {
	holder, err := scripts.Check(ctx, nil, gen.CheckParams{Lock: lock})
	return holder.V, err
}

// Code that takes a Caller runs with a fake of the one call that it makes, without a server.
func TestCallerIsForFakes(t *testing.T) {
	t.Parallel()
	got, err := owner(t.Context(), fake{holder: "token"}, "lock")
	require.NoError(t, err)
	require.Equal(t, "token of lock", got)
	_, err = owner(t.Context(), gen.New(), "")
	require.EqualError(
		t, err, "gen: Check: lock: it is an empty key; give its name", "the client is nil: nothing is sent",
	)
}
