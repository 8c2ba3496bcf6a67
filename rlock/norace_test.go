//go:build !race

package rlock_test

// usualSchedules is what takes about fifteen seconds.
const usualSchedules = 2000
