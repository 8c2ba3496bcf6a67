package redislua

// Held is the lock for a script with guard: KEYS[n] held by ARGV[m], such as *rlock.Lock of package rlock.
// The script does its work only while the key has the token.
type Held interface {
	Key() string   // the lock's key on the server
	Token() string // the value that the key has while the lock is held
}

// Fenced is the lock for a script with guard: KEYS[n] fenced by ARGV[m], such as *rlock.Lock. The script does
// its work only if its data has no larger fence.
type Fenced interface {
	Fence() uint64
}
