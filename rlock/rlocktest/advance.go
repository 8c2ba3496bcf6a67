package rlocktest

import (
	"testing/synctest"
	"time"
)

// Advance lets d pass in the bubble of testing/synctest that the server and the caller are in. It
// returns when everything has been done that was due: keys have expired at the server, leases
// are over for their Lockers, or were renewed in time, and who waits for a lock has got it. So what the test
// looks at next is the same in every run. It takes as long as that work does, not as long as d.
//
// The clock is that of the bubble, so each Locker of it that uses the server moves along,
// and so does the time of the test's own code. Advance(0) only waits until
// there is nothing to do before the time moves on. What [Server.Delay] holds up is still on its way.
//
// Advance panics if the server is not one of [StartInMemory], if it was started outside of the bubble,
// or if the caller is in none, because the server and the Lockers have no clock in common then.
// Only one goroutine of a bubble may call it at a time.
func (s *Server) Advance(d time.Duration) {
	switch {
	case s.Addr() != inMemory:
		panic("rlocktest: Advance: a server with a listener has no clock but the machine's; use StartInMemory " +
			"within synctest.Test")
	case time.Now().Round(0).Before(s.started):
		panic("rlocktest: Advance: the server was started outside of the bubble, so it has another clock; call " +
			"StartInMemory within synctest.Test")
	}
	synctest.Wait() // what has begun is done before the time moves on
	time.Sleep(d)
	synctest.Wait()
}
