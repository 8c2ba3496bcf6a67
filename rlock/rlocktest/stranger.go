package rlocktest

import (
	"fmt"
	"strconv"
	"time"
)

// Take gives a key to a stranger, whoever holds it: a free key is held by somebody else
// then, and who held it has lost it. The lease is a whole number of milliseconds; 0
// stands for none. The server pushes what it does as it pushes the work of any client.
//
// Keys are those of database 0, as Redis has them: with the prefix of the Locker. Take,
// Free and Shorten panic if the lease is wrong or the server was told to refuse everybody.
func (s *Server) Take(key string, ttl time.Duration) {
	argv := []string{"SET", key, "stranger"}
	if ttl != 0 {
		argv = append(argv, "PX", milliseconds(ttl))
	}
	s.stranger(argv...)
}

// Free deletes a key, whoever holds it: a stranger's lock is free then, and one's own is
// lost.
func (s *Server) Free(key string) { s.stranger("DEL", key) }

// Shorten gives a held key another lease, counted from now, whoever holds it.
func (s *Server) Shorten(key string, ttl time.Duration) {
	s.stranger("PEXPIRE", key, milliseconds(ttl))
}

func (s *Server) stranger(argv ...string) {
	if err := s.tracker.command(argv...); err != nil {
		panic(err)
	}
}

// milliseconds refuses what a server would, or could not be told.
func milliseconds(ttl time.Duration) string {
	switch {
	case ttl < time.Millisecond:
		panic(fmt.Sprintf("rlocktest: the lease %v is below 1ms", ttl))
	case ttl%time.Millisecond != 0:
		panic(fmt.Sprintf("rlocktest: the lease %v is not a whole number of milliseconds", ttl))
	}
	return strconv.FormatInt(ttl.Milliseconds(), 10)
}
