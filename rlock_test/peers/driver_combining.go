package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

// combining is the floor of libraries that send the calls of many callers together. It has bare
// rueidis, two scripts for many keys, and a combiner written by hand. The combiner shares no code
// with rlock's combiner. Like the floor, combining has no fence, no queue and no deadline, and
// repeats nothing.
type combining struct {
	client       rueidis.Client
	lease        string
	takes, frees gathering
}

// These are the most scripts under way for each kind of call, and the most locks of one script.
// TestTuneCombiningFloor has found both numbers.
const (
	combiningScripts = 1
	combiningLocks   = 256
)

var (
	takeMany = rueidis.NewLuaScript(`
local taken = {}
for i = 1, #KEYS do
  taken[i] = redis.call('SET', KEYS[i], ARGV[i + 1], 'NX', 'PX', ARGV[1]) and 1 or 0
end
return taken`)
	// Usually all tokens hold their locks, and one DEL frees them all.
	freeMany = rueidis.NewLuaScript(`
local holders, freed, held = redis.call('MGET', unpack(KEYS)), {}, {}
for i = 1, #KEYS do
  freed[i] = 0
  if holders[i] == ARGV[i] then
    freed[i], held[#held + 1] = 1, KEYS[i]
  end
end
if #held > 0 then
  redis.call('DEL', unpack(held))
end
return freed`)
)

// openCombining returns a function that opens a combining floor with these settings.
func openCombining(scripts, locks int) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(tb testing.TB, address string, lease time.Duration) locker {
		c := &combining{client: rueidisClient(tb, address), lease: strconv.FormatInt(lease.Milliseconds(), 10)}
		c.takes = gathering{scripts: scripts, locks: locks, send: func(keys, tokens []string) ([]int64, error) {
			return takeMany.Exec(context.Background(), c.client, keys,
				append([]string{c.lease}, tokens...)).AsIntSlice()
		}}
		c.frees = gathering{scripts: scripts, locks: locks, send: func(keys, tokens []string) ([]int64, error) {
			return freeMany.Exec(context.Background(), c.client, keys, tokens).AsIntSlice()
		}}
		return c
	}
}

// combiningFloor takes part where many callers each want a lock of their own.
func combiningFloor() driver {
	return driver{
		floorCombining,
		fmt.Sprintf("bare rueidis: one script takes all locks that callers want at that time, another script "+
			"frees locks; "+
			"%d script of each kind under way, with %d locks at most", combiningScripts, combiningLocks),
		false, false, openCombining(combiningScripts, combiningLocks),
	}
}

// combinedLock is what a release needs.
type combinedLock struct {
	by         *combining
	key, token string
}

func (c *combining) acquire(ctx context.Context, key string) (holding, error) {
	token := uuid.NewString()
	for {
		switch taken, err := c.takes.do(ctx, key, token); {
		case err != nil:
			return nil, err
		case taken:
			return &combinedLock{c, key, token}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (l *combinedLock) Release(ctx context.Context) error {
	freed, err := l.by.frees.do(ctx, l.key, l.token)
	if err == nil && !freed {
		err = errors.New("the lock was lost")
	}
	return err
}

// gathering is a combiner. A call goes at once while few scripts are under way. Else the call
// waits, and goes together with all other waiting calls as soon as a script is answered.
type gathering struct {
	scripts, locks int
	send           func(keys, tokens []string) ([]int64, error)

	mu       sync.Mutex
	waiting  []*wanted
	underway int
}

// wanted is a call that a caller waits for.
type wanted struct {
	key, token string
	done       bool
	err        error
	answered   chan struct{}
}

var spareWanted = sync.Pool{New: func() any { return &wanted{answered: make(chan struct{}, 1)} }}

func (g *gathering) do(ctx context.Context, key, token string) (bool, error) {
	w := spareWanted.Get().(*wanted)
	w.key, w.token = key, token
	g.mu.Lock()
	if g.underway < g.scripts {
		g.underway++
		g.mu.Unlock()
		g.exchange([]*wanted{w})
		g.next(false)
	} else {
		g.waiting = append(g.waiting, w)
		g.mu.Unlock()
	}
	select {
	case <-w.answered:
	case <-ctx.Done(): // like the floor, it does not undo the call
		return false, ctx.Err()
	}
	done, err := w.done, w.err
	spareWanted.Put(w)
	return done, err
}

// next sends the waiting calls. It uses a goroutine of its own unless its caller already has one.
func (g *gathering) next(own bool) {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), g.locks)
		if n == 0 {
			g.underway--
			g.mu.Unlock()
			return
		}
		batch := g.waiting[:n:n]
		if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
			g.waiting = nil
		}
		g.mu.Unlock()
		if !own {
			go func() {
				g.exchange(batch)
				g.next(true)
			}()
			return
		}
		g.exchange(batch)
	}
}

// exchange sends a script, and tells the callers that wait for it.
func (g *gathering) exchange(batch []*wanted) {
	keys, tokens := make([]string, len(batch)), make([]string, len(batch))
	for i, w := range batch {
		keys[i], tokens[i] = w.key, w.token
	}
	replies, err := g.send(keys, tokens)
	if err == nil && len(replies) != len(batch) {
		err = errWrong
	}
	for i, w := range batch {
		if w.err = err; err == nil {
			w.done = replies[i] == 1
		}
		w.answered <- struct{}{}
	}
}
