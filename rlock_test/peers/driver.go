package peers

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"
)

// lease is the lease of the measured locks. It is longer than any round, so no library extends a
// lock unless the round measures extensions.
const lease = 30 * time.Second

// holding is a held lock. It is the library's own value where possible, so the measurement
// allocates nothing.
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

// batchLocker takes several independent locks in one call, and frees them.
type batchLocker interface {
	cycleEach(ctx context.Context, keys []string) error
}

// checker tells from a client-side cache whether a lock is held.
type checker interface {
	check(ctx context.Context, key string) (held bool, err error)
}

// asker tells whether a lock is held, as the server says. A library that can only ask about its own
// lock gets such a lock.
type asker interface {
	ask(ctx context.Context, key string, own holding) (held bool, err error)
}

// driver is a library, or the floor, in one of its settings.
type driver struct {
	name     string
	settings string // the differences from the library's defaults, and the reasons
	peer     bool   // another library
	alone    bool   // it runs in one process, even where other drivers run in several
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

// drivers are all compared drivers, the floor first.
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

// wantedDrivers matches every driver, unless a flag says otherwise.
var wantedDrivers = regexp.MustCompile("")
