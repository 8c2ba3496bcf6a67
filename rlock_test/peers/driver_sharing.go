package peers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"golang.org/x/sync/semaphore"

	"github.com/rlock-go/toolkit/rlock"
)

// crowd describes how the callers that share a lock use it.
type crowd struct {
	limit   int           // of permits; 0: the callers are readers
	callers int           // of each process
	hold    time.Duration // how long each caller holds its share
	timed   bool          // the round measures the longest time of a reader's share
}

var (
	asReaders = crowd{callers: 128}
	asTimed   = crowd{callers: 128, timed: true}
	asHolders = crowd{limit: 10, callers: 16, hold: time.Millisecond}
	asOne     = crowd{limit: 1, callers: 1} // of one permit
)

// crowdedProcesses is how many processes share a lock.
const crowdedProcesses = 8

// sharing is a locker whose locks several callers share.
type sharing struct {
	crowd
	take    func(ctx context.Context, key string) (holding, error)
	inside  atomic.Int64 // holders in this process
	longest atomic.Int64 // of the timed reads since the last look
}

// timedRead is a reader's share with its begin. Its time ends when Release has returned.
type timedRead struct {
	holding
	since time.Time
	of    *sharing
}

func (r *timedRead) Release(ctx context.Context) error {
	err := r.holding.Release(ctx)
	took := int64(time.Since(r.since))
	for {
		if longest := r.of.longest.Load(); took <= longest || r.of.longest.CompareAndSwap(longest, took) {
			return err
		}
	}
}

// permit tells the resource when its holder gives it back.
type permit struct {
	holding
	inside *atomic.Int64
}

func (p *permit) Release(ctx context.Context) error {
	p.inside.Add(-1)
	return p.holding.Release(ctx)
}

// acquire fails if the resource sees more holders than permits.
func (s *sharing) acquire(ctx context.Context, key string) (holding, error) {
	held, err := s.take(ctx, key)
	if err == nil && s.timed {
		return &timedRead{held, time.Now(), s}, nil
	}
	if err != nil || s.limit == 0 {
		return held, err
	}
	if s.inside.Add(1) > int64(s.limit) {
		err = errWrong
	}
	return &permit{held, &s.inside}, err
}

func sharers(c crowd, of string) []driver {
	list := []driver{
		{of + ", floor", "bare rueidis: scripts with ZADD and ZREM remove expired members by the client's " +
			"clock, as asynq does. A waiter asks again after 1 ms", false, false, openFloorSharing(c)},
		{of + ", rlock", "default settings", false, false, openRlockSharing(c)},
	}
	if c.limit > 1 {
		all := c
		all.callers *= crowdedProcesses
		list = append(list, driver{of + ", x/sync",
			"a semaphore in one process that has all the callers, without a server", false, true, openLocal(all)})
	}
	return list
}

// sharingDrivers are the drivers of all crowds.
func sharingDrivers() []driver {
	return slices.Concat(sharers(asReaders, workReaders), sharers(asTimed, workTimed),
		sharers(asHolders, workPermits), sharers(asOne, workOnePermit))
}

func openRlockSharing(c crowd) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(tb testing.TB, address string, lease time.Duration) locker {
		l := openRlock()(tb, address, lease).(*ours).locker
		return &sharing{crowd: c, take: func(ctx context.Context, key string) (holding, error) {
			var (
				lock *rlock.Lock
				err  error
			)
			if c.limit == 0 {
				lock, err = l.AcquireShared(ctx, key)
			} else {
				lock, err = l.AcquirePermits(ctx, key, 1, c.limit)
			}
			if err != nil {
				return nil, err
			}
			return lock, nil
		}}
	}
}

// enter is the semaphore of asynq. A limit of 0 admits any number of holders.
var enter = rueidis.NewLuaScript(`redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', tonumber(ARGV[1]) - 1)
if ARGV[2] == '0' or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
  return 1
end
return 0`)

var leave = rueidis.NewLuaScript(`return redis.call('ZREM', KEYS[1], ARGV[1])`)

// member is a share of the floor.
type member struct {
	client     rueidis.Client
	key, token string
}

func (m *member) Release(ctx context.Context) error {
	n, err := leave.Exec(ctx, m.client, []string{m.key}, []string{m.token}).AsInt64()
	if err == nil && n == 0 {
		err = errors.New("the share was lost")
	}
	return err
}

func openFloorSharing(c crowd) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(tb testing.TB, address string, lease time.Duration) locker {
		client := rueidisClient(tb, address)
		return &sharing{crowd: c, take: func(ctx context.Context, key string) (holding, error) {
			m := &member{client, key, uuid.NewString()}
			for {
				now := time.Now()
				entered, err := enter.Exec(ctx, client, []string{key}, []string{
					strconv.FormatInt(now.UnixMilli(), 10), strconv.Itoa(c.limit),
					strconv.FormatInt(now.Add(lease).UnixMilli(), 10), m.token,
				}).AsInt64()
				switch {
				case err != nil:
					return nil, err
				case entered == 1:
					return m, nil
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
		}}
	}
}

// local is a semaphore without a server, and also a permit of the semaphore.
type local struct{ of *semaphore.Weighted }

func (l local) acquire(ctx context.Context, _ string) (holding, error) {
	return l, l.of.Acquire(ctx, 1)
}

func (l local) Release(context.Context) error {
	l.of.Release(1)
	return nil
}

func openLocal(c crowd) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(testing.TB, string, time.Duration) locker {
		of := local{semaphore.NewWeighted(int64(c.limit))}
		return &sharing{crowd: c, take: of.acquire}
	}
}

// withoutServer is a lock of one process. It shows what contended callers of one process cost
// without a server: they wait in a line that a context can end, and they wake up.
func withoutServer() driver {
	return driver{syncName, "a semaphore of one permit in one process, without a server, a lease or a fence",
		false, true,
		func(testing.TB, string, time.Duration) locker { return local{semaphore.NewWeighted(1)} }}
}
