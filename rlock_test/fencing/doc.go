// Package fencing is the worked example of a resource that looks after itself:
// it remembers the largest fence that it was written with, and refuses smaller
// ones, once in SQL and once in Redis. It is a module of its own, so that no
// database driver is among the requirements of rlock.
package fencing
