// Package command tests the program rlock as its users have it: built, and started as a process of
// its own beside real servers. The tests need signals, so Windows has none of them.
package command
