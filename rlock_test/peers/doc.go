// Package peers compares rlock with the libraries that Go programs use for locks on Redis
// today. All libraries run in one run, on the same server, in rounds that alternate. So a
// busy machine is busy for all libraries alike. docs/BENCHMARKS.md has the method and the
// reasons. results.csv has the figures.
//
//	make bench         every figure
//	make bench-quick   the same in under two minutes, for development
//
// Each driver does what its library's own documentation recommends for the job, with the
// settings that suit the library best. Where two settings make sense, both take part. The
// floor is bare rueidis: the commands that every lock needs, written by hand.
package peers
