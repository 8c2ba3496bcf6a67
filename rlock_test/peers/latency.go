package peers

import (
	"encoding/json"
	"math"
	"math/bits"
	"time"
)

// latencies counts durations in buckets that are about 3 % wide, from 1 ns to hours. It allocates
// nothing, so a measurement does not affect its own result.
type latencies struct {
	count [60 * steps]int64
	most  time.Duration
	held  time.Duration // total time for which the locks were held; 0 if they are released at once
}

const steps = 32 // buckets for each doubling

func (l *latencies) add(d time.Duration) {
	l.most = max(l.most, d)
	l.count[bucket(d)]++
}

func (l *latencies) merge(other *latencies) {
	l.most = max(l.most, other.most)
	l.held += other.held
	for i, n := range other.count {
		l.count[i] += n
	}
}

// quantile returns a duration that a share q of all durations does not exceed.
func (l *latencies) quantile(q float64) time.Duration {
	var all int64
	for _, n := range l.count {
		all += n
	}
	rest := int64(math.Ceil(q * float64(all)))
	for i, n := range l.count {
		if rest -= n; rest <= 0 {
			return min(upper(i), l.most)
		}
	}
	return l.most
}

// MarshalJSON writes the buckets that are not empty, the longest duration, and the total time for
// which locks were held.
func (l latencies) MarshalJSON() ([]byte, error) {
	counts := map[int]int64{}
	for i, n := range l.count {
		if n != 0 {
			counts[i] = n
		}
	}
	return json.Marshal(sparse{counts, l.most, l.held})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (l *latencies) UnmarshalJSON(text []byte) error {
	var s sparse
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*l = latencies{most: s.Most, held: s.Held}
	for i, n := range s.Counts {
		l.count[i] = n
	}
	return nil
}

// sparse is the written form of latencies.
type sparse struct {
	Counts map[int]int64
	Most   time.Duration
	Held   time.Duration
}

func bucket(d time.Duration) int {
	n := uint64(max(d, 1))
	power := bits.Len64(n) - 1
	if power < 5 {
		return int(n)
	}
	return (power-4)*steps + int(n>>(power-5))&(steps-1)
}

// upper is the longest duration of a bucket.
func upper(i int) time.Duration {
	if i < steps {
		return time.Duration(i)
	}
	power := i/steps + 4
	return time.Duration((uint64(steps+i%steps+1) << (power - 5)) - 1)
}
