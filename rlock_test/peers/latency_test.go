package peers

import (
	"encoding/json"
	"testing"
	"time"
)

func TestLatencies(t *testing.T) {
	t.Parallel()
	var odd, even latencies
	for i := 1; i <= 1000; i++ {
		l := &even
		if i%2 == 1 {
			l = &odd
		}
		l.add(time.Duration(i) * time.Microsecond)
	}
	odd.merge(&even)
	for q, want := range map[float64]time.Duration{
		0.001: time.Microsecond, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond,
	} {
		if got := odd.quantile(q); got < want || got > want+want/20 {
			t.Errorf("quantile %v: %v, want about %v", q, got, want)
		}
	}
	text, err := json.Marshal(odd)
	if err != nil {
		t.Fatal(err)
	}
	var read latencies
	if err := json.Unmarshal(text, &read); err != nil || read != odd {
		t.Errorf("%s: %v", text, err)
	}
	if odd.most != time.Millisecond {
		t.Errorf("most: %v", odd.most)
	}
	if got := new(latencies).quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestBucketsHoldWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	for d := time.Duration(1); d < 100*time.Hour; d += d/50 + 1 {
		i := bucket(d)
		if d > upper(i) || d <= upper(i-1) {
			t.Fatalf("%v is in bucket %d, which is from %v to %v", d, i, upper(i-1), upper(i))
		}
	}
}
