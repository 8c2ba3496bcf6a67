package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	workReaders   = "readers"
	workPermits   = "permits"
	workOnePermit = "one permit"
	workTimed     = "timed readers"
	workWriter    = "a writer among readers"
)

// shared are the workloads of locks that several callers hold together.
func shared() []workload {
	return []workload{
		{
			name: workReaders, why: "all callers read under one lock and release it at once",
			levels: []int{1, 16, 256, 1024}, level: "callers", fits: fits[*sharing], run: contended(asReaders.hold),
			more: sharers(asReaders, workReaders),
		},
		{
			name: workPermits, why: fmt.Sprintf("all callers want one of %d permits and hold it for %v",
				asHolders.limit, asHolders.hold),
			levels: []int{128}, level: "callers", fits: fits[*sharing], run: contended(asHolders.hold),
			more: sharers(asHolders, workPermits),
		},
	}
}

// crowded is workProcesses for callers that share a lock.
func crowded(c crowd, name string) workload {
	w := workload{
		name: name + ", " + workProcesses, level: "processes", more: sharers(c, name), fits: fits[*sharing],
		why: fmt.Sprintf("the %d callers of each process read under one lock and release it at once",
			c.callers),
	}
	if c.limit > 0 {
		w.why = fmt.Sprintf("the %d callers of each process want one of %d permits and hold it for %v", c.callers,
			c.limit, c.hold)
	}
	return w
}

// mostWait is the longest time that a writer should wait. It is the sum of the longest read, three
// round trips, and 10 ms. For these 10 ms, later readers of a process share what the first reader
// has.
func mostWait(s *sample) time.Duration { return s.read + 3*s.roundTrip + 10*time.Millisecond }

// compareWriters measures how long a caller waits for the whole lock among processes that read all
// the time. Each caller of these processes is a reader.
func compareWriters(t *testing.T, e env.Engine, processes int, p plan) comparison {
	d := sharers(asReaders, workReaders)[1]
	c := comparison{workload: workload{
		name: workWriter,
		why: fmt.Sprintf("the %d callers of each process read under one lock, and a writer wants it every "+
			"20 ms", asReaders.callers),
		level: "processes",
	}, level: processes, outcomes: []*outcome{{driver: d}}}
	server := e.Start(t)
	m := meter{tb: t, server: server}
	readers := make([]*env.Program, processes)
	for i := range readers {
		readers[i] = recruit(t, sharers(asTimed, workTimed)[1], server.Addr())
	}
	m.crowd(readers, p.round/8)
	writer, client := openRlock()(t, server.Addr(), lease), rueidisClient(t, server.Addr())
	c.alternate(m, min(p.rounds, 3), func(int) *sample {
		ended := make(chan *sample, 1)
		go func() { ended <- m.crowd(readers, 4*p.round) }()
		trips := new(latencies)
		time.Sleep(p.round / 4)
		s := m.run(3*p.round, 1, func(ctx context.Context, _ int, l *latencies) error {
			time.Sleep(20 * time.Millisecond)
			start := time.Now()
			if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
				return err
			}
			trips.add(time.Since(start))
			return cycle(ctx, writer, "job", 0, l)
		})
		s.read, s.roundTrip = (<-ended).read, trips.quantile(0.5)
		return s
	})
	return c
}
