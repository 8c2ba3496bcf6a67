package failure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// sleeper is the environment variable that makes the test binary a holder that is
// going to be stopped, of locks at the server of that address.
const sleeper = "RLOCK_SLEEP_AT"

const sleeperTTL = 2 * time.Second

// oversleep holds two locks and prints of each whether it is valid and its fence; once
// more after a line on standard input; and then whether its Context says that it is
// not held any more.
func oversleep(address string) error {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}}, rlock.WithTTL(sleeperTTL))
	if err != nil {
		return err
	}
	defer locker.Close()
	var locks []*rlock.Lock
	for _, key := range []string{"extended", "fixed"} {
		lock, err := locker.Acquire(context.Background(), key, rlock.WithAutoExtend(key == "extended"))
		if err != nil {
			return err
		}
		fmt.Println(lock.Err() == nil, lock.Fence())
		locks = append(locks, lock)
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for _, lock := range locks {
		fmt.Println(lock.Err() == nil, lock.Fence())
	}
	for _, lock := range locks {
		<-lock.Context().Done()
		fmt.Println(errors.Is(context.Cause(lock.Context()), rlock.ErrNotHeld))
	}
	return nil
}

// A process that stood still for longer than its leases finds them over as soon as it
// goes on. What it decided before it stood still, the fence stops.
func TestHolderIsPaused(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		program := env.Reexec(t, sleeper+"="+server.Addr())
		said := func() (valid bool, fence uint64) {
			t.Helper()
			line := program.Line()
			_, err := fmt.Sscan(line, &valid, &fence)
			require.NoError(t, err, line)
			return valid, fence
		}
		keys, resources := []string{"extended", "fixed"}, make([]guarded, 2)
		for i := range keys {
			valid, fence := said()
			require.True(t, valid)
			require.True(t, resources[i].write(fence))
		}
		program.Stop()
		rival := env.NewLocker(t, server.Client(t))
		for i, key := range keys {
			next, err := rival.Acquire(t.Context(), key)
			require.NoError(t, err)
			require.True(t, resources[i].write(next.Fence()))
		}
		program.Send("go on") // it reads that before anything can tell it of its loss
		program.Cont()
		for i, key := range keys {
			valid, fence := said()
			require.False(t, valid, "two holders of %s", key)
			require.False(t, resources[i].write(fence), "two writers of %s", key)
		}
		for range keys {
			require.Equal(t, "true", program.Line())
		}
		program.Wait()
		for _, key := range keys {
			state := env.HolderOf(t, rival, key)
			require.NotEmpty(t, state.Token(), "%s stays with its new holder", key)
		}
	})
}
