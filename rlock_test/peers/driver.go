package peers

import (
	"context"
	"testing"
	"time"
)

// lease is that of the locks that are measured: longer than any round, so that nothing
// is extended unless that is measured.
const lease = 30 * time.Second

// release frees a lock.
type release func(context.Context) error

// locker is a library at work, on one client.
type locker interface {
	// acquire waits until the lock is held.
	acquire(ctx context.Context, key string) (release, error)
}

// setLocker takes several keys atomically.
type setLocker interface {
	acquireAll(ctx context.Context, keys []string) (release, error)
}

// batchLocker takes several independent locks in one go, and frees them.
type batchLocker interface {
	cycleEach(ctx context.Context, keys []string) error
}

// checker tells whether a lock is held.
type checker interface {
	check(ctx context.Context, key string) (held bool, err error)
}

// driver is a library, or the floor, in one of its settings.
type driver struct {
	name     string
	settings string // what differs from the library's defaults, and why
	peer     bool   // another library
	open     func(tb testing.TB, address string, lease time.Duration) locker
}

// drivers are all that are compared, the floor first.
func drivers() []driver {
	return []driver{
		{"floor", "bare rueidis: SET NX PX, then a compare-and-delete script", false, openFloor},
		{"rlock", "as it comes", false, openRlock()},
		{"rlock, no fence", "WithFence(false)", false, openRlock(unfenced)},
		{"rlock, auto-extended", "WithAutoExtend(true)", false, openRlock(extended)},
		{"rueidislock", "KeyMajority 1, as one server is asked; NoLoopTracking, as Redis is 7.0.5 or later", true, openRueidislock(true)},
		{"rueidislock, loop", "KeyMajority 1, without NoLoopTracking", true, openRueidislock(false)},
		{"bsm/redislock", "LinearBackoff(10ms), on go-redis", true, openBsm},
		{"redsync, go-redis", "as it comes, but for as many tries as it takes", true, openRedsyncGoRedis},
		{"redsync, rueidis", "as it comes, but for as many tries as it takes", true, openRedsyncRueidis},
	}
}
