//go:build race

package rlock_test

// usualSchedules is fewer with the race detector, which is slow.
const usualSchedules = 500
