package peers

import (
	"context"
	"fmt"
	"time"
)

// workload is a job that locks are used for.
type workload struct {
	name   string
	why    string // what it shows, for the reader of the tables
	levels []int  // how many callers, keys or the like
	level  string // what a level counts
	fits   func(locker) bool
	run    func(m meter, l locker, level int, d time.Duration) *sample
}

func anyLocker(locker) bool { return true }

// workloads are all that are measured on one server and in one process.
func workloads() []workload {
	return []workload{
		{
			name: "uncontended", why: "acquire and release, each caller on keys of its own",
			levels: []int{1, 16, 64, 256, 1024}, level: "callers", fits: anyLocker, run: uncontended,
		},
		{
			name: "contended, no hold", why: "all callers want the same lock, and release it at once",
			levels: []int{2, 16, 64, 256}, level: "callers", fits: anyLocker, run: contended(0),
		},
		{
			name: "contended, 1 ms hold", why: "all callers want the same lock, and hold it for a millisecond",
			levels: []int{2, 16, 64, 256}, level: "callers", fits: anyLocker, run: contended(time.Millisecond),
		},
		{
			name: "sets", why: "several keys of one slot, all or none",
			levels: []int{2, 16, 128, 1000}, level: "keys", fits: fits[setLocker], run: sets,
		},
		{
			name: "batches", why: "independent locks, taken and released together",
			levels: []int{100}, level: "locks", fits: anyLocker, run: batches,
		},
		{
			name: "checks", why: "is it held? asked again and again",
			levels: []int{1, 64}, level: "callers", fits: fits[checker], run: checks,
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
	free, err := l.acquire(ctx, key)
	if err != nil {
		return err
	}
	latency.add(time.Since(start))
	if hold > 0 {
		time.Sleep(hold)
	}
	return free(context.Background())
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

func sets(m meter, l locker, size int, d time.Duration) *sample {
	keys := make([]string, size)
	for i := range keys {
		keys[i] = fmt.Sprintf("{set}:%d", i)
	}
	return m.run(d, 1, func(ctx context.Context, _ int, latency *latencies) error {
		start := time.Now()
		free, err := l.(setLocker).acquireAll(ctx, keys)
		if err != nil {
			return err
		}
		latency.add(time.Since(start))
		return free(context.Background())
	})
}

// batches takes locks one by one where a library cannot do it together.
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

func checks(m meter, l locker, callers int, d time.Duration) *sample {
	free, err := l.acquire(m.tb.Context(), "job")
	if err != nil {
		m.tb.Fatal(err)
	}
	defer free(context.WithoutCancel(m.tb.Context()))
	return m.run(d, callers, func(ctx context.Context, _ int, latency *latencies) error {
		start := time.Now()
		held, err := l.(checker).check(ctx, "job")
		latency.add(time.Since(start))
		if err == nil && !held {
			err = errWrong
		}
		return err
	})
}
