package peers

import (
	"context"
	"fmt"
	"time"
)

// workload is a job for which callers use locks.
type workload struct {
	name   string
	why    string // what the workload shows, for the reader of the tables
	levels []int  // how many callers, keys or the like
	level  string // the unit of a level
	fits   func(locker) bool
	run    func(m meter, l locker, level int, d time.Duration) *sample
	more   []driver      // drivers that take part beside all other drivers
	far    time.Duration // what a proxy adds to each round trip; 0: there is none
}

func anyLocker(locker) bool { return true }

// workloads are all workloads of one server and one process. Callers on the server's machine do all
// workloads. Callers at a distance do some of them.
func workloads() []workload {
	list := append(near(), shared()...)
	for _, far := range distances {
		for _, w := range near() {
			if levels := levelsFar[w.name]; levels != nil {
				w.name, w.far, w.levels = fmt.Sprintf("%s, %v away", w.name, far), far, levels
				list = append(list, w)
			}
		}
	}
	return list
}

// distances are round trips through a proxy.
var distances = []time.Duration{time.Millisecond, 30 * time.Millisecond}

// levelsFar are the levels that the run measures from a distance, by workload.
var levelsFar = map[string][]int{
	workUncontended: {64},
	workContended:   {16},
	workSets:        {16},
	workBatches:     {100},
}

const (
	workUncontended = "uncontended"
	workContended   = "contended, no hold"
	workHeld        = "contended, 1 ms hold"
	workSets        = "sets, one caller"
	workManySets    = "sets, many callers"
	workBatches     = "batches"
	workCached      = "checks, from the cache"
	workAsked       = "checks, from the server"
)

func near() []workload {
	return []workload{
		{
			name: workUncontended, why: "each caller takes and frees its own key",
			levels: []int{1, 16, 64, 256, 1024, 4096}, level: "callers", fits: anyLocker, run: uncontended,
			more: []driver{combiningFloor()},
		},
		{
			name: workContended, why: "all callers want one lock and release it at once",
			levels: []int{2, 16, 64, 256}, level: "callers", fits: anyLocker, run: contended(0),
			more: []driver{withoutServer()},
		},
		{
			name: workHeld, why: "all callers want one lock and hold it for 1 ms",
			levels: []int{2, 16, 64, 256}, level: "callers", fits: anyLocker, run: contended(time.Millisecond),
			more: []driver{withoutServer()},
		},
		{
			name: workSets, why: "one caller takes several keys of one slot, all or none",
			levels: []int{2, 16, 128, 1000, 10_000}, level: "keys", fits: fits[setLocker], run: sets(1),
		},
		{
			name: workManySets,
			why: fmt.Sprintf("each of %d callers takes its own set of keys of one slot, all or none",
				manySets),
			levels: []int{2, 16, 128, 1000}, level: "keys", fits: fits[setLocker], run: sets(manySets),
		},
		{
			name: workBatches, why: "one caller takes and frees independent locks, together where the library can",
			levels: []int{100}, level: "locks", fits: anyLocker, run: batches,
			more: []driver{{oneByOne, "no batch", false, false, openOneByOne}},
		},
		{
			name: workCached, why: "each caller asks whether a lock is held, and its client answers",
			levels: []int{1, 64}, level: "callers", fits: fits[checker], run: checks(fromCache),
		},
		{
			name: workAsked, why: "each caller asks whether a lock is held, and the server answers",
			levels: []int{1, 64}, level: "callers", fits: fits[asker], run: checks(fromServer),
		},
	}
}

func fits[T any](l locker) bool {
	_, ok := l.(T)
	return ok
}

// cycle acquires and releases one lock, holding it for a while.
func cycle(ctx context.Context, l locker, key string, hold time.Duration, latency *latencies) error {
	start := time.Now()
	held, err := l.acquire(ctx, key)
	if err != nil {
		return err
	}
	latency.add(time.Since(start))
	if hold > 0 {
		begin := time.Now()
		time.Sleep(hold) // the sleep takes longer if the process reads more from connections
		latency.held += time.Since(begin)
	}
	return held.Release(context.Background())
}

func uncontended(m meter, l locker, callers int, d time.Duration) *sample {
	keys := make([]string, callers)
	for i := range keys {
		keys[i] = fmt.Sprintf("job:%d", i)
	}
	return m.run(d, callers, func(ctx context.Context, worker int, latency *latencies) error {
		return cycle(ctx, l, keys[worker], 0, latency)
	})
}

func contended(hold time.Duration) func(meter, locker, int, time.Duration) *sample {
	return func(m meter, l locker, callers int, d time.Duration) *sample {
		return m.run(d, callers, func(ctx context.Context, _ int, latency *latencies) error {
			return cycle(ctx, l, "job", hold, latency)
		})
	}
}

// manySets is how many callers take sets at the same time.
const manySets = 16

func sets(callers int) func(meter, locker, int, time.Duration) *sample {
	return func(m meter, l locker, size int, d time.Duration) *sample {
		keys := make([][]string, callers)
		for i := range keys {
			for n := range size {
				keys[i] = append(keys[i], fmt.Sprintf("{set%d}:%d", i, n))
			}
		}
		return m.run(d, callers, func(ctx context.Context, worker int, latency *latencies) error {
			start := time.Now()
			held, err := l.(setLocker).acquireAll(ctx, keys[worker])
			if err != nil {
				return err
			}
			latency.add(time.Since(start))
			return held.Release(context.Background())
		})
	}
}

// batches takes locks one by one if a library cannot take them together.
func batches(m meter, l locker, size int, d time.Duration) *sample {
	keys := make([]string, size)
	for i := range keys {
		keys[i] = fmt.Sprintf("job:%d", i)
	}
	together, can := l.(batchLocker)
	return m.run(d, 1, func(ctx context.Context, _ int, latency *latencies) error {
		start := time.Now()
		defer func() { latency.add(time.Since(start)) }()
		if can {
			return together.cycleEach(ctx, keys)
		}
		var unused latencies
		for _, key := range keys {
			if err := cycle(ctx, l, key, 0, &unused); err != nil {
				return err
			}
		}
		return nil
	})
}

func checks(ask func(ctx context.Context, l locker, key string, own holding) (bool, error)) func(meter,
	locker, int, time.Duration) *sample {
	return func(m meter, l locker, callers int, d time.Duration) *sample {
		own, err := l.acquire(m.tb.Context(), "job")
		if err != nil {
			m.tb.Fatal(err)
		}
		defer own.Release(context.WithoutCancel(m.tb.Context()))
		return m.run(d, callers, func(ctx context.Context, _ int, latency *latencies) error {
			start := time.Now()
			held, err := ask(ctx, l, "job", own)
			latency.add(time.Since(start))
			if err == nil && !held {
				err = errWrong
			}
			return err
		})
	}
}

func fromCache(ctx context.Context, l locker, key string, _ holding) (bool, error) {
	return l.(checker).check(ctx, key)
}

func fromServer(ctx context.Context, l locker, key string, own holding) (bool, error) {
	return l.(asker).ask(ctx, key, own)
}
