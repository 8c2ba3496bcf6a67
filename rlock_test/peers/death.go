package peers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const workDeath = "wake-up after a holder's death"

// shortLease is the lease of a holder that dies.
const shortLease = 500 * time.Millisecond

// compareDeaths measures how long a lock stays idle after its holder was killed. The time runs from
// the end of the lease on the server until a waiter in another process has the lock.
func compareDeaths(t *testing.T, e env.Engine, name string, drivers []driver, p plan) comparison {
	c := comparison{workload: workload{name: name, why: "the latency is the time from the end of the " +
		"dead holder's lease until a waiter has the lock", level: "waiter"}, level: 1}
	server := e.Start(t)
	m := meter{tb: t, server: server}
	var waiters []locker
	for _, d := range drivers {
		c.outcomes = append(c.outcomes, &outcome{driver: d})
		waiters = append(waiters, d.open(t, server.Addr(), shortLease))
	}
	c.alternate(m, p.rounds, func(n int) *sample {
		holder := recruit(t, c.outcomes[n].driver, server.Addr())
		holder.Send(keep)
		if line := holder.Line(); line != "held" {
			t.Fatal(line)
		}
		return m.outlive(holder, waiters[n])
	})
	return c
}

// outlive kills a holder while a waiter waits, and measures the time.
func (m meter) outlive(holder *env.Program, waiter locker) *sample {
	s := &sample{least: 1, most: 1}
	ctx, cancel := context.WithTimeout(m.tb.Context(), 20*shortLease)
	defer cancel()
	from := m.read()
	switch err := m.inherit(ctx, holder, waiter, &s.latency); {
	case err == nil:
		s.ops = 1
	case ctx.Err() != nil:
		s.hung = true
	default:
		s.failed = 1
	}
	s.charge(from, m.read())
	return s
}

func (m meter) inherit(ctx context.Context, holder *env.Program, waiter locker, latency *latencies) error {
	ended := await(ctx, waiter, "job")
	time.Sleep(shortLease / 5)
	holder.Kill()
	free, err := m.freeAt()
	if err != nil {
		return err
	}
	return (<-ended).settle(free, latency)
}

var errNoLock = errors.New("there is no lock on the server")

// freeAt returns when the lease of the only lock on the server ends. The other keys of rlock are
// not locks.
func (m meter) freeAt() (time.Time, error) {
	reply := m.server.Do(m.tb, "KEYS", "*")
	keys, err := reply.AsStrSlice()
	if err != nil {
		return time.Time{}, err
	}
	for _, key := range keys {
		if strings.HasPrefix(key, "rlock:") {
			continue
		}
		left := m.server.Do(m.tb, "PTTL", key)
		ms, err := left.AsInt64()
		if err != nil {
			return time.Time{}, err
		}
		return time.Now().Add(time.Duration(ms) * time.Millisecond), nil
	}
	return time.Time{}, errNoLock
}
