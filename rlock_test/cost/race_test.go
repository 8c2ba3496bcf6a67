//go:build race

package cost

// loadScale is larger with the race detector, which is slow.
const loadScale = 10
