package peers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	workSetGuest = "a set among processes"
	workPoller   = "another library among processes"
	workBarging  = workPoller + " WithBarging"
	workNewcomer = "rlock among processes of "
)

// guest is one caller who wants keys that other processes want all the time.
type guest struct {
	driver
	keys []string // the keys of the processes' callers, one for each caller in turn
	ask  func(ctx context.Context, l locker) (holding, error)
}

// nobody is the name of the processes without a guest.
const nobody = "nobody"

// setGuests are a guest that wants a set of four keys of rlock, and nobody.
func setGuests() []guest {
	keys := []string{"{set}a", "{set}b", "{set}c", "{set}d"}
	return []guest{
		{driver: driver{name: nobody}, keys: keys},
		{driver{rlockPlain, "default settings", false, false, openRlock()}, keys,
			func(ctx context.Context, l locker) (holding, error) {
				return l.(setLocker).acquireAll(ctx, keys)
			}},
	}
}

// peerDrivers are the drivers of the other libraries.
func peerDrivers() []driver {
	return slices.DeleteFunc(drivers(), func(d driver) bool { return !d.peer })
}

// keyOf is the key that a library uses for the name "job".
func keyOf(d driver) string {
	if strings.HasPrefix(d.name, rueidisLockName) {
		return "rueidislock:0:job"
	}
	return "job"
}

// pollers are the other libraries, each as a guest of rlock on its own key, and nobody.
func pollers() []guest {
	list := []guest{{driver: driver{name: nobody}}}
	for _, d := range peerDrivers() {
		list = append(list, guest{d, []string{keyOf(d)},
			func(ctx context.Context, l locker) (holding, error) { return l.acquire(ctx, "job") }})
	}
	return list
}

// newcomers are rlock as a guest of another library, on that library's key, and nobody.
func newcomers(host driver) []guest {
	return []guest{{driver: driver{name: nobody}}, {
		driver: driver{rlockPlain, "default settings", false, false, openRlock()},
		ask:    func(ctx context.Context, l locker) (holding, error) { return l.acquire(ctx, keyOf(host)) },
	}}
}

// compareGuests measures how long a guest waits among processes, and what the guest costs these
// processes. The rate is the rate of the processes. The latency is the latency of the guest. If the
// end of the round cuts a wait off, the wait counts with its length until then. So a guest that
// never gets the lock shows the length of the round. host is the driver of the processes.
func compareGuests(t *testing.T, e env.Engine, name, why string, guests []guest, host driver, processes int,
	p plan) comparison {
	c := comparison{workload: workload{name: name, why: why, level: "processes"}, level: processes}
	server := e.Start(t)
	m := meter{tb: t, server: server}
	hosts := make([]*env.Program, processes)
	for i := range hosts {
		hosts[i] = recruit(t, host, server.Addr())
	}
	m.crowd(hosts, p.round/8)
	lockers := make([]locker, len(guests))
	for i, g := range guests {
		c.outcomes = append(c.outcomes, &outcome{driver: g.driver})
		if g.open != nil {
			lockers[i] = g.open(t, server.Addr(), lease)
		}
	}
	c.alternate(m, min(p.rounds, 3), func(n int) *sample {
		g, d, visits := guests[n], 10*p.round, make(chan visit, 1)
		ctx, cancel := context.WithTimeout(t.Context(), d*9/10)
		defer cancel()
		if g.ask != nil {
			time.AfterFunc(d/20, func() { visits <- g.visit(ctx, lockers[n]) })
		}
		s := m.crowd(hosts, d, g.keys...)
		if g.ask != nil && !s.hung {
			v := <-visits
			s.latency, s.failed = v.latency, s.failed+v.failed
		}
		return s
	})
	return c
}

// visit is what a guest got in a round.
type visit struct {
	latency latencies
	failed  int64 // although the guest had time left
}

// visit makes a guest take and free its lock until ctx ends. The guest pauses between its locks.
func (g guest) visit(ctx context.Context, l locker) (v visit) {
	for ctx.Err() == nil {
		start := time.Now()
		held, err := g.ask(ctx, l)
		v.latency.add(time.Since(start))
		switch {
		case err == nil:
			_ = held.Release(context.Background())
		case ctx.Err() == nil:
			v.failed++
		}
		time.Sleep(20 * time.Millisecond)
	}
	return v
}

func (r *results) guestGoals() []*goal {
	const set, poller = "a set of 4 keys among 8 processes of rlock", "among 8 processes of rlock"
	longest := func(s *sample) float64 { return s.latency.most.Seconds() }
	p50 := func(s *sample) float64 { return s.latency.quantile(0.5).Seconds() }
	list := []*goal{
		r.atMost(0.2).of(set, "p50 of the set ≤ 0.2 s", workSetGuest, medianOf(rlockPlain, p50)),
		r.atMost(3).of(set, "longest wait of the set ≤ 3 s", workSetGuest, medianOf(rlockPlain, longest)),
		r.atLeast(0.8).of(set, "rate of the processes ≥ 0.8 × without the set", workSetGuest,
			rate(rlockPlain, nobody)),
	}
	// Each setting has goals of its own. The fastest setting would be one whose guest the processes
	// hardly notice.
	for _, d := range peerDrivers() {
		list = append(list, r.atMost(1).of(d.name+" "+poller, "longest wait ≤ 1 s", workPoller,
			medianOf(d.name, longest)),
			r.atMost(1).of(d.name+" "+poller+", WithBarging", "longest wait ≤ 1 s", workBarging,
				medianOf(d.name, longest)),
			r.atMost(1).of("rlock among 8 processes of "+d.name, "longest wait ≤ 1 s", workNewcomer+d.name,
				medianOf(rlockPlain, longest)))
	}
	return list
}
