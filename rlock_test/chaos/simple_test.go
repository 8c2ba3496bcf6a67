package chaos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

// simple is a lock service as short as one can be that is right: of every key one
// holder, leases that are enforced locally, fences, and nothing left behind. Each
// flaw makes it wrong in one of the ways in which lock libraries are.
type simple struct {
	client rueidis.Client
	flaw
}

type flaw string

const (
	flawless       flaw = "simple"
	endlessLease   flaw = "lease not enforced locally"
	prefixCompare  flaw = "release compares prefixes"
	blindRetry     flaw = "acquisition repeated without knowing itself"
	forgottenFence flaw = "fences from a counter alone"
)

func init() {
	for _, f := range []flaw{flawless, endlessLease, prefixCompare, blindRetry, forgottenFence} {
		services[string(f)] = func(option rueidis.ClientOption, _ int) (lockService, error) {
			option.DisableCache = true
			client, err := rueidis.NewClient(option)
			return &simple{client, f}, err
		}
	}
}

var (
	takeSimply = rueidis.NewLuaScriptNoSha(`
for _, key in ipairs(KEYS) do
  local owner = redis.call('GET', key)
  if owner and (owner ~= ARGV[1] or ARGV[3] == 'blind') then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
local counter = 'rlock:fence:' .. string.match(KEYS[1], '{.*}')
local fence = redis.call('INCR', counter)
if ARGV[4] == 'clock' then
  local now = redis.call('TIME')
  fence = math.max(fence, now[1] * 1000000 + now[2])
  redis.call('SET', counter, fence)
end
return fence`)
	releaseSimply = rueidis.NewLuaScriptNoSha(`
local freed = 0
for _, key in ipairs(KEYS) do
  local owner = redis.call('GET', key)
  if owner and (owner == ARGV[1] or ARGV[2] == 'prefix' and string.sub(owner, 1, #ARGV[1]) == ARGV[1]) then
    freed = freed + redis.call('DEL', key)
  end
end
return freed`)
	extendSimply = rueidis.NewLuaScriptNoSha(`
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
return 1`)
)

// simpleLock is used by one goroutine, as the workers do.
type simpleLock struct {
	service  *simple
	keys     []string
	token    string
	fence    uint64
	deadline time.Time
	over     bool
}

var simpleTokens atomic.Int64

func (s *simple) acquire(ctx context.Context, keys []string, w wish) (lock, error) {
	l := &simpleLock{service: s, keys: keys, token: fmt.Sprintf("%d:%d", w.worker, simpleTokens.Add(1))}
	if s.flaw == prefixCompare {
		l.token = strconv.Itoa(w.worker % 30) // the names of jobs: 1, 2, … 10, 11 …
	}
	for {
		fence, err := l.try(ctx, w.ttl)
		switch {
		case err != nil:
			return nil, err
		case fence > 0 && !l.Valid():
			return nil, fmt.Errorf("%w, %w", rlock.ErrExpired, l.Release(ctx))
		case fence > 0:
			return l, nil
		case !w.wait:
			return nil, rlock.ErrHeld
		}
		select {
		case <-ctx.Done():
			return nil, rlock.ErrGaveUp
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// try asks the server until it answers. What it does not answer is undone.
func (l *simpleLock) try(ctx context.Context, ttl time.Duration) (fence int64, err error) {
	blind, clock := "", "clock"
	switch l.service.flaw {
	case blindRetry:
		blind = "blind"
	case forgottenFence:
		clock = ""
	}
	for range 10 { // until the client has connected again
		sent := time.Now()
		fence, err = takeSimply.Exec(ctx, l.service.client, l.keys, []string{l.token, strconv.FormatInt(ttl.Milliseconds(), 10), blind, clock}).AsInt64()
		if err == nil {
			l.fence, l.deadline = uint64(fence), sent.Add(ttl-2*time.Millisecond)
			return fence, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return 0, fmt.Errorf("%w; undone: %w", err, l.free(context.WithoutCancel(ctx)))
}

func (l *simpleLock) free(ctx context.Context) error {
	prefix := ""
	if l.service.flaw == prefixCompare {
		prefix = "prefix"
	}
	var err error
	for range 3 {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err = releaseSimply.Exec(short, l.service.client, l.keys, []string{l.token, prefix}).AsInt64()
		cancel()
		if err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func (l *simpleLock) Release(ctx context.Context) error {
	valid := l.Valid()
	l.over = true
	if err := l.free(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if !valid {
		return rlock.ErrExpired
	}
	return nil
}

func (l *simpleLock) Extend(ctx context.Context, ttl time.Duration) error {
	if !l.Valid() {
		return rlock.ErrExpired
	}
	sent := time.Now()
	end := sent.Add(ttl - 2*time.Millisecond)
	if end.Before(l.deadline) {
		l.deadline = end
	}
	extended, err := extendSimply.Exec(ctx, l.service.client, l.keys, []string{l.token, strconv.FormatInt(ttl.Milliseconds(), 10)}).AsInt64()
	if err != nil {
		return err
	}
	if extended == 0 {
		l.over = true
		return rlock.ErrLost
	}
	l.deadline = end
	return nil
}

func (l *simpleLock) Valid() bool {
	return !l.over && (l.service.flaw == endlessLease || time.Now().Before(l.deadline))
}

func (l *simpleLock) Fence() uint64       { return l.fence }
func (l *simpleLock) Token() string       { return l.token }
func (l *simpleLock) Deadline() time.Time { return l.deadline }

func (l *simpleLock) Verify(ctx context.Context) (rlock.State, error) {
	if !l.Valid() {
		return rlock.State{}, rlock.ErrExpired
	}
	for _, key := range l.keys {
		token, err := l.service.client.Do(ctx, l.service.client.B().Get().Key(key).Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return rlock.State{}, err
		}
		if !strings.HasPrefix(token, l.token) {
			l.over = true
			return rlock.State{}, rlock.ErrLost
		}
	}
	return rlock.State{}, nil
}

func (s *simple) acquireEach(ctx context.Context, keys []string, w wish) []attempt {
	attempts := make([]attempt, len(keys))
	for i := range keys {
		attempts[i].lock, attempts[i].err = s.acquire(ctx, keys[i:i+1], w)
	}
	return attempts
}

func (s *simple) do(ctx context.Context, key string, w wish, fn func(lock)) error {
	l, err := s.acquire(ctx, []string{key}, w)
	if err != nil {
		return err
	}
	fn(l)
	return l.Release(ctx)
}

func (s *simple) look(ctx context.Context, key string, _ bool) error {
	err := s.client.Do(ctx, s.client.B().Get().Key(key).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

func (s *simple) handedOver() uint64 { return 0 }

func (s *simple) close() { s.client.Close() }
