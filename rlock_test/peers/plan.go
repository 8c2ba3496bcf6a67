package peers

import "time"

// plan is how much a run measures.
type plan struct {
	rounds   int           // of each driver at each level
	round    time.Duration // the length of a round
	most     int           // the highest level
	farthest time.Duration // from the server
	idle     int           // the number of held locks
	idleFor  time.Duration
	largest  int // the largest size of a curve
}

var (
	smokePlan = plan{rounds: 1, round: 20 * time.Millisecond, most: 16, idle: 100,
		idleFor: 100 * time.Millisecond, largest: 100}
	quickPlan = plan{rounds: 2, round: 100 * time.Millisecond, most: 100, farthest: time.Millisecond, idle: 1000,
		idleFor: 5 * time.Second, largest: 10_000}
	fullPlan = plan{rounds: 5, round: 800 * time.Millisecond, most: 1 << 20, farthest: time.Second, idle: 10_000,
		idleFor: 30 * time.Second, largest: 1_000_000}
)
