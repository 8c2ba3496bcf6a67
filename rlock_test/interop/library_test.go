package interop

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// library is a lock library of others.
type library struct {
	name string // as its registry has it
	// keys returns the Redis keys that rlock must take to exclude with the library's
	// lock of a name.
	keys  func(name string) []string
	value *regexp.Regexp // of each of them
	open  func(tb testing.TB, address string) locker
}

// locker tries locks with a library.
type locker interface {
	// try returns nil without an error if the lock is another's.
	try(ctx context.Context, name string, ttl time.Duration) (holding, error)
}

// holding is a lock that a library counts as its own.
type holding interface {
	// release tells whether the library says that the lock was still its own.
	release(ctx context.Context) (own bool, err error)
}

// extender is a holding that the library extends only when it is asked to.
type extender interface {
	// extend tells whether the library says that the lock is still its own.
	extend(ctx context.Context, ttl time.Duration) (own bool, err error)
}

// keeper is a holding that the library extends by itself.
type keeper interface {
	// lost is closed when the library says that the lock has ended.
	lost() <-chan struct{}
	// die makes the library stop, as a process does that is killed.
	die()
}

// plain says that the name is the key.
func plain(name string) []string { return []string{name} }

// yarnlKey has the first ten hex digits of the name's SHA-1.
func yarnlKey(name string) []string {
	sum := sha1.Sum([]byte(name))
	return []string{"lock:" + hex.EncodeToString(sum[:])[:10]}
}

// rueidislockKeys are all the keys that a locker of this majority uses.
func rueidislockKeys(majority int) func(name string) []string {
	return func(name string) []string {
		var keys []string
		for i := range 2*majority - 1 {
			keys = append(keys, "rueidislock:"+strconv.Itoa(i)+":"+name)
		}
		return keys
	}
}

var uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

var libraries = []library{
	{"github.com/bsm/redislock", plain, regexp.MustCompile(`^[\w-]{22}of a test$`), openBsm},
	{"github.com/go-redsync/redsync", plain, regexp.MustCompile(`^[\w+/]{22}==$`), openRedsync},
	{"github.com/redis/rueidis/rueidislock, KeyMajority: 1", rueidislockKeys(1),
		regexp.MustCompile(`(?s)^.{24}$`), openRueidislock(1, false)},
	{"github.com/redis/rueidis/rueidislock, FallbackSETPX", rueidislockKeys(1),
		regexp.MustCompile(`(?s)^.{24}$`), openRueidislock(1, true)},
	{"github.com/redis/rueidis/rueidislock", rueidislockKeys(2), regexp.MustCompile(`(?s)^.{24}$`),
		openRueidislock(2, false)},
	{"npm redislock", plain, uuidText, openNpm("redislock")},
	{"npm yarnl", yarnlKey, uuidText, openNpm("yarnl")},
	{"npm redis-exp-lock", plain, uuidText, openNpm("redis-exp-lock")},
	{"npm @kontsedal/locco", plain, regexp.MustCompile(`^[0-9a-f]{32}$`), openNpm("@kontsedal/locco")},
	{"npm redlock", plain, regexp.MustCompile(`^[0-9a-f]{32}$`), openNpm("redlock")},
	{"gem redis_exp_lock, replayed", plain, uuidText, openReplay(gemRedisExpLock)},
	{"redis-py Lock, replayed", plain, regexp.MustCompile(`^[0-9a-f]{32}$`), openReplay(redisPy)},
}
