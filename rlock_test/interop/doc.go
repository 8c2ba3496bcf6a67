// Package interop holds rlock against the lock libraries of others: which keys exclude
// with theirs, and what each does when its lock ends under it.
//
//	make interop
//
// runs it on each server; docs/INTEROP.md has the results. The tests have npm install its
// libraries beside this file. What neither Go nor npm can install is replayed command by
// command.
package interop
