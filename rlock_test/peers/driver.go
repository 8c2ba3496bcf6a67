package peers

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"
)

// lease is that of the locks that are measured: longer than any round, so that nothing
// is extended unless that is measured.
const lease = 30 * time.Second

// holding is a lock that is held. It is what the library returns, where that will do, so
// that measuring costs no allocation.
type holding interface{ Release(context.Context) error }

// locker is a library at work, on one client.
type locker interface {
	// acquire waits until the lock is held.
	acquire(ctx context.Context, key string) (holding, error)
}

// setLocker takes several keys atomically.
type setLocker interface {
	acquireAll(ctx context.Context, keys []string) (holding, error)
}

// batchLocker takes several independent locks in one go, and frees them.
type batchLocker interface {
	cycleEach(ctx context.Context, keys []string) error
}

// checker tells whether a lock is held, from a client-side cache.
type checker interface {
	check(ctx context.Context, key string) (held bool, err error)
}

// asker tells whether a lock is held, as the server says: those who can only ask for a
// lock of their own are given it.
type asker interface {
	ask(ctx context.Context, key string, own holding) (held bool, err error)
}

// driver is a library, or the floor, in one of its settings.
type driver struct {
	name     string
	settings string // what differs from the library's defaults, and why
	peer     bool   // another library
	alone    bool   // it is of one process, also where others are of several
	open     func(tb testing.TB, address string, lease time.Duration) locker
}

const (
	floorName       = "floor"
	floorInScripts  = "floor, in scripts"
	floorCombining  = "floor, combining"
	syncName        = "x/sync"
	rlockPlain      = "rlock"
	rlockUnfenced   = "rlock, no fence"
	rlockExtended   = "rlock, auto-extended"
	rueidisLockName = "rueidislock"
	bsmName         = "bsm/redislock"
	redsyncName     = "redsync"
)

// drivers are all that are compared, the floor first.
func drivers() []driver {
	return slices.DeleteFunc([]driver{
		{floorName, "bare rueidis: SET NX PX, then a compare-and-delete script", false, false, openFloor},
		{floorInScripts, "bare rueidis: SET NX PX in a script, then a compare-and-delete script", false, false,
			openFloorInScripts},
		{rlockPlain, "default settings", false, false, openRlock()},
		{rlockUnfenced, "WithFence(false)", false, false, openRlock(unfenced)},
		{rlockExtended, "WithAutoExtend(true)", false, false, openRlock(extended)},
		{rueidisLockName + ", noloop",
			"KeyMajority 1 for one server, NoLoopTracking for Redis 7.0.5 or later", true, false,
			openRueidislock(true)},
		{rueidisLockName + ", loop", "KeyMajority 1, without NoLoopTracking", true, false, openRueidislock(false)},
		{bsmName, "LinearBackoff(10ms), on go-redis", true, false, openBsm},
		{redsyncName + ", go-redis", "default settings, with as many tries as needed", true, false,
			openRedsyncGoRedis},
		{redsyncName + ", rueidis", "default settings, with as many tries as needed", true, false,
			openRedsyncRueidis},
	}, func(d driver) bool { return !wantedDrivers.MatchString(d.name) })
}

// wantedDrivers has all of them, unless a flag says otherwise.
var wantedDrivers = regexp.MustCompile("")
