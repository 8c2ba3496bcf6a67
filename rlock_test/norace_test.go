//go:build !race

package rlock_test

// loadScale is what the numbers of the load test are divided by.
const loadScale = 1
