package redislua

// Held is a lock that a script with guard: KEYS[n] held by ARGV[m] runs under, such as *rlock.Lock of
// package rlock: the script does its work only while the key has the token.
type Held interface {
	Key() string   // the lock's key on the server
	Token() string // the value that the key has while the lock is held
}

// Fenced is a lock with a fence, such as *rlock.Lock, for a script with guard: KEYS[n] fenced by ARGV[m]:
// the script does its work only if its data has no larger fence.
type Fenced interface {
	Fence() uint64
}
