//go:build !race

package cost

// loadScale is what the numbers of the load test are divided by.
const loadScale = 1
