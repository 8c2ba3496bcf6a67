// Package examples has small programs that use locks as services do. Copy from them. The tests build each
// program, run it as a process against real servers, and check its output.
//
//	cron      a job that N replicas start and one replica does, once a period, with WithMinHold
//	handler   an HTTP service with a lock for each account
//	transfer  money from one account to another, under the locks of both
//	leader    one process leads; when it ends or dies, the next one leads
//	workers   at most N workers of a fleet at a time
//	gate      a feature that is off while an operator holds a lock; the cache answers the checks
//	guarded   writes that the server refuses when the lock is lost
//	callback  a client that already has a callback for invalidations
//	connect   options for one server, a cluster, Sentinel and TLS; Probe at the start
//
// Two more are adapters for other libraries. They are modules of their own, with their own tests:
//
//	gocron     a Locker for gocron: of several schedulers, one runs the job
//	certmagic  a Storage for certmagic: of several servers, one asks for the certificate
//
// Each program takes the address of its server from REDIS_ADDR, or uses localhost:6379. Only connect has
// flags for the address.
package examples
