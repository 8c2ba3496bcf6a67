// Package examples has small programs that use locks as services do, each to be copied from. Its
// tests build them, run them as processes of their own against real servers, and look at what they
// print.
//
//	cron      a job that N replicas start and one of them does, once a period, WithMinHold
//	handler   an HTTP service with a lock for each account
//	transfer  money from one account to another, under the locks of both
//	leader    one process leads; when it ends or dies, the next one does
//	workers   at most N workers of a fleet at a time
//	gate      a feature that is off while somebody holds a lock, asked for from the cache
//	guarded   writes that the server refuses when the lock is no longer held
//	callback  a client that has a callback for invalidations of its own
//	connect   options for one server, a cluster, Sentinel and TLS; Probe at the start
//
// Two more are adapters for other libraries, and modules of their own with their own tests:
//
//	gocron     a Locker for gocron: of several schedulers, one runs the job
//	certmagic  a Storage for certmagic: of several servers, one asks for the certificate
//
// Each program takes the address of its server from REDIS_ADDR, or localhost:6379; connect has flags.
package examples
