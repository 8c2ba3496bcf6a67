//go:build race

package rlock_test

// loadScale is larger with the race detector, which is slow.
const loadScale = 10
