package runtime

import "strconv"

// Held is a lock that a guarded script runs under, such as *rlock.Lock: the script
// does its work only while the lock's key has the lock's token.
type Held interface {
	Key() string   // the lock's key on the server
	Token() string // the value that the key has while the lock is held
}

// Shared is a reader's share of a lock, such as the *rlock.Lock of AcquireShared: the script does its
// work only while readers share the lock who did when the share was granted, so that nobody has had the
// whole lock since.
type Shared interface {
	Key() string   // the lock's key on the server
	Fence() uint64 // the same for all who share the lock
}

// Fenced is a lock with a fence, such as *rlock.Lock: the script does its work only if
// its data has no larger fence.
type Fenced interface {
	Fence() uint64
}

// checkHeld refuses a lock that is nil, or has no key or token: the script would compare
// an empty string.
func checkHeld(script, param string, lock Held) error {
	switch {
	case lock == nil:
		return &ParamError{script, param, "the lock is nil; the script runs only while a lock is held"}
	case lock.Key() == "":
		return &ParamError{script, param, "the lock has no key"}
	case lock.Token() == "":
		return &ParamError{script, param, "the lock has no token"}
	}
	return nil
}

// checkShared refuses a share that is nil, or has no key or fence: the script would compare a value that
// no lock has.
func checkShared(script, param string, lock Shared) error {
	switch {
	case lock == nil:
		return &ParamError{script, param, "the lock is nil; the script runs only while readers share a lock"}
	case lock.Key() == "":
		return &ParamError{script, param, "the lock has no key"}
	case lock.Fence() == 0:
		return &ParamError{script, param, "the lock has no fence, so it is no reader's share"}
	}
	return nil
}

// sharedValue is the value that the lock's key has while these readers share it.
func sharedValue(lock Shared) string {
	return "rlock:readers " + strconv.FormatUint(lock.Fence(), 10)
}

// encodeFence writes a lock's fence.
func encodeFence(script, param string, lock Fenced) (string, error) {
	switch {
	case lock == nil:
		return "", &ParamError{script, param, "the lock is nil; the script compares its fence"}
	case lock.Fence() == 0:
		return "", &ParamError{script, param, "the lock was taken without a fence"}
	case lock.Fence() > 1<<53:
		return "", &ParamError{script, param, "the fence is above 2^53, and the script, whose numbers are doubles, could not tell it from its neighbours"}
	}
	return strconv.FormatUint(lock.Fence(), 10), nil
}
