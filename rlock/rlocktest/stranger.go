package rlocktest

import (
	"fmt"
	"strconv"
	"time"
)

// Take gives a key to a stranger. If the key is free, the stranger holds it. If a holder has the key, the
// holder loses it. ttl is a whole number of milliseconds, and 0 means no lease. The server pushes the change
// like a change of any client.
//
// Keys are keys of database 0, with the prefix of the Locker. Take, Free and Shorten panic if ttl is wrong,
// or if the server refuses every command, as after SetError.
func (s *Server) Take(key string, ttl time.Duration) {
	argv := []string{"SET", key, "stranger"}
	if ttl != 0 {
		argv = append(argv, "PX", milliseconds(ttl))
	}
	s.stranger(argv...)
}

// Free deletes a key, whichever token has it: the holder loses the lock.
func (s *Server) Free(key string) { s.stranger("DEL", key) }

// Shorten gives a held key another lease, counted from now, whichever token has it.
func (s *Server) Shorten(key string, ttl time.Duration) {
	s.stranger("PEXPIRE", key, milliseconds(ttl))
}

func (s *Server) stranger(argv ...string) {
	if err := s.tracker.command(argv...); err != nil {
		panic(err)
	}
}

// milliseconds refuses a TTL that a server would refuse or cannot express.
func milliseconds(ttl time.Duration) string {
	switch {
	case ttl < time.Millisecond:
		panic(fmt.Sprintf("rlocktest: the lease %v is below 1ms", ttl))
	case ttl%time.Millisecond != 0:
		panic(fmt.Sprintf("rlocktest: the lease %v is not a whole number of milliseconds", ttl))
	}
	return strconv.FormatInt(ttl.Milliseconds(), 10)
}
