package rlocktest

import (
	"testing/synctest"
	"time"
)

// Advance lets d pass in the bubble of testing/synctest of the server and the caller. It returns when all due
// work is done: keys have expired at the server, leases have ended or were extended, and waiters have their
// locks. So the test sees the same state in every run. Advance takes as long as that work, not as long as d.
//
// The clock is the clock of the bubble. It also moves each Locker of the bubble and the test itself.
// Advance(0) only waits until there is no work before the next move of the clock. Answers under
// [Server.Delay] are still on their way.
//
// Advance panics if [StartInMemory] has not made the server, if the server started outside of the bubble, or
// if the caller is in no bubble. The server and the Lockers then have no common clock. Only one goroutine of
// a bubble may call Advance at a time.
func (s *Server) Advance(d time.Duration) {
	switch {
	case s.Addr() != inMemory:
		panic("rlocktest: Advance: a server with a listener has no clock but the machine's; use StartInMemory " +
			"within synctest.Test")
	case time.Now().Round(0).Before(s.started):
		panic("rlocktest: Advance: the server was started outside of the bubble, so it has another clock; call " +
			"StartInMemory within synctest.Test")
	}
	synctest.Wait() // work under way ends before the clock moves
	time.Sleep(d)
	synctest.Wait()
}
