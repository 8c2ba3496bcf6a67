package waiting

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// crowder is the environment variable that makes the test binary a process with many
// who want the same lock, at the server of that address.
const crowder = "RLOCK_CROWD_AT"

// crowdSize is how many of one process want the lock.
const crowdSize = 100

// crowd has each of many goroutines take and release one lock, from the line "go" on
// standard input.
func crowd(address string) error {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		return err
	}
	defer locker.Close()
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = env.Together(crowdSize, func(int) error {
		lock, err := locker.Acquire(ctx, "job")
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	})
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// However many want a lock, a release wakes one of each process at most, and most
// releases pass the lock on within theirs: a crowd costs the server a few scripts an
// acquisition, not one for everybody who waits.
func TestCrowdIsNotAHerd(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const processes = 8
		server := e.Start(t)
		var crowd []*env.Program
		for range processes {
			crowd = append(crowd, env.Reexec(t, crowder+"="+server.Addr()))
		}
		for _, p := range crowd {
			require.Equal(t, "ready", p.Line())
		}
		before := server.ScriptCalls(t)
		for _, p := range crowd {
			p.Send("go")
		}
		for _, p := range crowd {
			require.Equal(t, "done", p.Line())
			p.Wait()
		}
		perRelease := float64(server.ScriptCalls(t)-before) / (processes * crowdSize)
		t.Logf("%.2f scripts a release", perRelease)
		require.LessOrEqual(t, perRelease, float64(processes))
	})
}
