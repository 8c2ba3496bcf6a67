// Package interop holds rlock against the lock libraries of others: which keys exclude
// with theirs, and what each does when its lock ends under it.
//
//	make interop
//
// installs the npm libraries beside this file and runs all of it; rlock/INTEROP.md has
// the results. What cannot be installed by Go or npm is replayed command by command.
package interop
