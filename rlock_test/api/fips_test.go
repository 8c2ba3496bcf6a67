package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// strict is the environment variable that makes the test binary a program which locks
// at the server of that address, with a fence and without one.
const strict = "RLOCK_STRICT_AT"

func lockStrictly(address string) error {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		return err
	}
	defer locker.Close()
	for _, fence := range []bool{false, true} {
		lock, err := locker.Acquire(context.Background(), "job", rlock.WithFence(fence))
		if err != nil {
			return err
		}
		if err := lock.Release(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println("locked")
	return nil
}

// Under GODEBUG=fips140=only crypto/sha1 panics. No lock needs it, because the generator has computed the
// sums of the scripts, so no script has to be loaded before it is called.
func TestLocksWithoutSHA1(t *testing.T) {
	t.Parallel()
	for _, debug := range []string{"fips140=only", "fips140=off"} {
		server := env.Start(t)
		program := env.Reexec(t, strict+"="+server.Addr(), "GODEBUG="+debug)
		require.Equal(t, "locked", program.Line(), debug)
		program.Wait()
		require.Zero(t, server.CommandStats(t)["script|load"], debug)
	}
}
