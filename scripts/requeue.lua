-- Gives up a lock as Release does, for a process with more callers: it names a second token, which takes the
-- lock if nobody else waits, and joins the queue otherwise, behind all others. Only the call that gives up
-- the lock inserts the second token. A caller that lost the reply may safely send the same call again: a
-- repetition tells where the first call has put the second token. If that is nowhere, the token must not be
-- used any more.
--
-- name: Requeue
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of the tokens that wait
-- KEYS[3]   waiters key        the hash that says who they are
-- KEYS[4]   holders key        the sorted set of those who share the lock
-- KEYS[5]   grants  channels   what the channels of all processes start with
-- KEYS[6..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     the token that gives up the lock
-- ARGV[2]   again   string     the second token, which no call had before
-- ARGV[3]   ttl     duration?  lease of the second token; absent: it never ends
-- ARGV[4]   process string     who is told of a grant to the second token; empty: nobody
-- ARGV[5]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: freed bool, granted bool, fence int, remaining duration, score int

-- include: include/free.lua
-- include: include/place.lua

local lock, queue, waiters, holders, grants, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, again, ttl, process, barging = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local holder = redis.call('GET', lock)
if not free(lock, queue, waiters, holders, grants, counter, token, holder == token, barging) then
  if holder == again then
    local time = redis.call('TIME')
    local fence = next_fence(counter, time[1] * 1000000 + time[2])
    if type(fence) ~= 'number' then
      return fence
    end
    if ttl == '' then
      redis.call('PERSIST', lock)
    else
      redis.call('PEXPIRE', lock, ttl, 'GT')
    end
    return {0, 1, fence, redis.call('PTTL', lock), 0}
  end
  return {0, 0, 0, 0, tonumber(redis.call('ZSCORE', queue, again) or 0)}
end

-- After an error the second token is nowhere, and its next call has the error.
local nowhere = {1, 0, 0, 0, 0}
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local now = math.floor(clock / 1000)
if redis.pcall('EXISTS', lock, queue) == 0 and open_for(barging, now) == 0 then
  local fence = give(lock, holders, counter, {value = false}, again, ttl, clock)
  if type(fence) ~= 'number' then
    return nowhere
  end
  return {1, 1, fence, tonumber(ttl) or -1, 0}
end
local last = redis.pcall('ZRANGE', queue, -1, -1, 'WITHSCORES')
if last.err then
  return nowhere
end
local score = math.max(clock, (tonumber(last[2]) or 0) + 1)
-- A place without all that it needs would be in the way of others.
local function place()
  redis.call('ZADD', queue, string.format('%.0f', score), again)
  if not last[2] then
    forget(waiters, again)
  end
  heard(waiters, again, redis.call('ZCARD', queue), ttl, process, now)
  last_on(queue, waiters)
end
if not pcall(place) then
  leave(queue, waiters, again)
  return nowhere
end
return {1, 0, 0, 0, score}
