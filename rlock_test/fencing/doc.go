// Package fencing is the worked example of a resource that protects itself. The resource remembers
// the largest fence that it was written with, and refuses smaller fences. One version uses SQL, the
// other uses Redis. The package is a module of its own, so rlock requires no database driver.
package fencing
