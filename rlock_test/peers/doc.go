// Package peers measures rlock beside what Go programs use for locks on Redis today, in
// one run, on the same server, in rounds that alternate, so that a busy machine is busy
// for all of them alike. docs/BENCHMARKS.md has the method and the reasons, results.csv
// the figures.
//
//	make bench         every figure
//	make bench-quick   the same in under two minutes, for development
//
// Each driver does what that library's own documentation recommends for the job, with
// the settings that suit it best; where two settings make sense, both are there. The
// floor is bare rueidis: the commands that a lock cannot do without, written by hand.
package peers
