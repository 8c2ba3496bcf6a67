// Package peers measures rlock beside what Go programs use for locks on Redis today, in
// one run, on the same server, in rounds that alternate, so that a busy machine is busy
// for all of them alike.
//
//	make bench         every table
//	make bench-quick   the same in under two minutes, for development
//
// Each driver does what that library's own documentation recommends for the job, with
// the settings that suit it best; where two settings make sense, both are there. The
// floor is bare rueidis: the commands that a lock cannot do without, written by hand.
//
// Throughput and latencies are given as ratios, as they depend on the machine. What does
// not, is counted: commands and processor time of the server for each acquisition,
// allocations and bytes of the client.
package peers
