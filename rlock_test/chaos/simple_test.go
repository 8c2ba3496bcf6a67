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
	lastLease      flaw = "shared for as long as the last lease that was asked for"
	checkThenTake  flaw = "permits counted in one call and taken in the next"
)

func init() {
	for _, f := range []flaw{flawless, endlessLease, prefixCompare, blindRetry, forgottenFence, lastLease,
		checkThenTake} {
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
  if redis.call('TYPE', key).ok == 'zset' then
    return 0
  end
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
  if redis.call('TYPE', key).ok == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if string.match(member, '^%d+ %d+ %d+ (.*)$') == ARGV[1] then
        freed = freed + redis.call('ZREM', key, member)
      end
    end
    return freed
  end
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

	// Who shares a key is in a sorted set under its name: "<fence> <limit> <number> <token>", with the end of
	// the lease as the score. ARGV is the token, the lease, the limit, the permits, and the flaw.
	shareSimply = rueidis.NewLuaScriptNoSha(`
local key, token, limit, permits, flaw = KEYS[1], ARGV[1], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fence
if redis.call('TYPE', key).ok == 'string' then
  return 0
end
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
local first = redis.call('ZRANGE', key, 0, 0)[1]
local present
if first then
  fence, present = string.match(first, '^(%d+) (%d+) ')
  if (present == '0') ~= (limit == '0') then
    return -1
  end
end
for i = 1, permits do
  if fence then
    redis.call('ZREM', key, fence .. ' ' .. limit .. ' ' .. i .. ' ' .. token)
  end
end
if flaw ~= 'take' and limit ~= '0' and redis.call('ZCARD', key) + permits > tonumber(limit) then
  return 0
end
if flaw == 'look' then
  return 1
end
if not fence then
  local counter = 'rlock:fence:' .. string.match(key, '{.*}')
  local next = math.max(redis.call('INCR', counter), time[1] * 1000000 + time[2])
  redis.call('SET', counter, string.format('%.0f', next))
  fence = string.format('%.0f', next)
end
for i = 1, permits do
  redis.call('ZADD', key, now + tonumber(ARGV[2]), fence .. ' ' .. limit .. ' ' .. i .. ' ' .. token)
end
local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
if flaw == 'last' then
  last = now + tonumber(ARGV[2])
end
redis.call('PEXPIREAT', key, last)
return tonumber(fence)`)
	extendShareSimply = rueidis.NewLuaScriptNoSha(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
local extended = 0
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], string.format('(%.0f', now), '+inf', 'BYSCORE')) do
  if string.match(member, '^%d+ %d+ %d+ (.*)$') == ARGV[1] then
    if ARGV[2] ~= '' then
      redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), member)
    end
    extended = 1
  end
end
if extended == 1 then
  redis.call('PEXPIREAT', KEYS[1], redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
end
return extended`)
)

// simpleLock is used by one goroutine, as the workers do.
type simpleLock struct {
	service  *simple
	keys     []string
	token    string
	fence    uint64
	deadline time.Time
	over     bool
	share    share
}

var simpleTokens atomic.Int64

func (s *simple) acquire(ctx context.Context, keys []string, w wish) (lock, error) {
	l := &simpleLock{service: s, keys: keys, share: w.share,
		token: fmt.Sprintf("%d:%d", w.worker, simpleTokens.Add(1))}
	if s.flaw == prefixCompare {
		l.token = strconv.Itoa(w.worker % 30) // the names of jobs: 1, 2, … 10, 11 …
	}
	for {
		fence, err := l.try(ctx, w.ttl)
		switch {
		case err != nil:
			return nil, err
		case fence > 0 && l.Err() != nil:
			return nil, fmt.Errorf("%w, %w", rlock.ErrExpired, l.Release(ctx))
		case fence > 0:
			return l, nil
		case fence < 0:
			return nil, rlock.ErrHeld
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
		if lease := strconv.FormatInt(ttl.Milliseconds(), 10); l.share.whole() {
			fence, err = takeSimply.Exec(ctx, l.service.client, l.keys,
				[]string{l.token, lease, blind, clock}).AsInt64()
		} else {
			fence, err = l.tryShare(ctx, lease)
		}
		if err == nil {
			l.fence, l.deadline = uint64(fence), sent.Add(ttl-2*time.Millisecond)
			return fence, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return 0, fmt.Errorf("%w; undone: %w", err, l.free(context.WithoutCancel(ctx)))
}

func (l *simpleLock) tryShare(ctx context.Context, lease string) (fence int64, err error) {
	steps := []string{""}
	switch {
	case l.service.flaw == lastLease:
		steps[0] = "last"
	case l.service.flaw == checkThenTake && l.share.Limit > 0:
		steps = []string{"look", "take"}
	}
	for _, step := range steps {
		fence, err = shareSimply.Exec(ctx, l.service.client, l.keys,
			[]string{l.token, lease, strconv.Itoa(l.share.Limit), strconv.Itoa(l.share.Permits),
				step}).AsInt64()
		if err != nil || fence <= 0 {
			return fence, err
		}
	}
	return fence, nil
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
	valid := l.Err() == nil
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
	if l.Err() != nil {
		return rlock.ErrExpired
	}
	sent := time.Now()
	end := sent.Add(ttl - 2*time.Millisecond)
	if end.Before(l.deadline) {
		l.deadline = end
	}
	script := extendSimply
	if !l.share.whole() {
		script = extendShareSimply
	}
	extended, err := script.Exec(ctx, l.service.client, l.keys,
		[]string{l.token, strconv.FormatInt(ttl.Milliseconds(), 10)}).AsInt64()
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

func (l *simpleLock) Err() error {
	if l.over || l.service.flaw != endlessLease && !time.Now().Before(l.deadline) {
		return rlock.ErrNotHeld
	}
	return nil
}

func (l *simpleLock) Fence() uint64       { return l.fence }
func (l *simpleLock) Token() string       { return l.token }
func (l *simpleLock) Deadline() time.Time { return l.deadline }

func (l *simpleLock) Verify(ctx context.Context) error {
	if l.Err() != nil {
		return rlock.ErrExpired
	}
	if !l.share.whole() {
		has, err := extendShareSimply.Exec(ctx, l.service.client, l.keys, []string{l.token, ""}).AsInt64()
		if err == nil && has == 0 {
			l.over = true
			err = rlock.ErrLost
		}
		return err
	}
	for _, key := range l.keys {
		token, err := l.service.client.Do(ctx, l.service.client.B().Get().Key(key).Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		if !strings.HasPrefix(token, l.token) {
			l.over = true
			return rlock.ErrLost
		}
	}
	return nil
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
