package failure

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// victim is the environment variable that makes the test binary a holder to be killed,
// at the server of that address.
const victim = "RLOCK_VICTIM_AT"

const victimTTL = 4 * time.Second

// holdForEver takes a lock, says so, and has it extended until the process is killed.
func holdForEver(address string) error {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(context.Background(), "job", func(ctx context.Context, _ *rlock.Lock) error {
		fmt.Println("held")
		<-ctx.Done()
		return ctx.Err()
	}, rlock.WithTTL(victimTTL))
}

// A holder that dies without a word blocks others for no longer than its lease, however long it has had
// the lock: the next in line has it soon after the lease's end. The server is left to itself: among
// thousands of keys with a lease it takes minutes to notice that one is over.
func TestHolderDies(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "EVAL", "for i = 1, 20000 do redis.call('SET', 'other:' .. i, 'x', 'PX', 3600000) end", "0")
		holder := env.Reexec(t, victim+"="+server.Addr())
		require.Equal(t, "held", holder.Line())
		waiting := env.OpenOn(t, server)
		got := make(chan error, 1)
		var next time.Time
		go func() {
			lock, err := waiting.Acquire(t.Context(), "job")
			next = time.Now()
			if err == nil {
				err = lock.Release(t.Context())
			}
			got <- err
		}()
		env.AwaitWaiting(t, waiting, 1)
		env.Soon(t, func() bool { return server.CommandStats(t)["pexpire"] > 0 }, "the lease has been extended")

		died := time.Now()
		holder.Kill()
		require.NoError(t, env.Receive(t, got))
		require.Less(t, next.Sub(died), victimTTL+10*time.Second,
			"half a second, on a machine with nothing else to do")
	})
}
