package peers

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

var tune = flag.Bool("tune", false, "find the settings of the combining floor")

// The combining floor takes free locks for one caller each, and frees what has the token.
func TestCombiningFloor(t *testing.T) {
	server := env.Engines(t)[0].Start(t)
	for _, locks := range []int{1, 7, combiningLocks} {
		l := openCombining(2, locks)(t, server.Addr(), time.Minute).(*combining)
		held := make([]holding, 100)
		require.NoError(t, env.Together(len(held), func(n int) (err error) {
			held[n], err = l.acquire(t.Context(), fmt.Sprintf("job:%d", n))
			return err
		}))
		require.NoError(t, env.Together(2*len(held), func(n int) error {
			if taken, err := l.takes.do(t.Context(), fmt.Sprintf("job:%d", n%len(held)), "another"); err != nil ||
				taken {
				return fmt.Errorf("it is taken twice, or refused: %w", err)
			}
			if freed, err := l.frees.do(t.Context(), fmt.Sprintf("job:%d", n%len(held)), "another"); err != nil ||
				freed {
				return fmt.Errorf("another frees it, or is refused: %w", err)
			}
			return nil
		}))
		require.NoError(t, env.Together(len(held), func(n int) error { return held[n].Release(t.Context()) }))
		reply := server.Do(t, "DBSIZE")
		left, err := reply.ToInt64()
		require.NoError(t, err)
		require.Zero(t, left)
		require.Zero(t, l.takes.underway+l.frees.underway)
	}
}

// With -tune it prints how fast the combining floor is with other settings: in the fastest round of each,
// because what else the machine does makes rounds slower only.
func TestTuneCombiningFloor(t *testing.T) {
	if !*tune {
		t.Log("only with -args -tune")
		return
	}
	p := quickPlan
	if *times > 0 {
		p.rounds = *times
	}
	if *long > 0 {
		p.round = *long
	}
	for _, callers := range []int{64, 256, 1024, 4096} {
		server := env.Engines(t)[0].Start(t)
		c := comparison{workload: workload{name: workUncontended}, level: callers}
		var lockers []locker
		for _, scripts := range []int{1, 2, 3, 4, 8} {
			for _, locks := range []int{64, 128, 256, 512} {
				open := openCombining(scripts, locks)
				lockers = append(lockers, open(t, server.Addr(), lease))
				c.outcomes = append(c.outcomes,
					&outcome{driver: driver{name: fmt.Sprintf("%d scripts of %d", scripts, locks)}})
			}
		}
		m := meter{tb: t, server: server}
		c.alternate(m, p.rounds, func(n int) *sample { return uncontended(m, lockers[n], callers, p.round) })
		fmt.Printf("%d callers:", callers)
		for _, o := range c.outcomes {
			fmt.Printf(" %s: %s;", o.name, plain(o.fastest()))
		}
		fmt.Println()
	}
}
