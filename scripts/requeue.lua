-- Gives up a lock as Release does, and lets a second token of the same process wait for the lock.
--
-- A process that has more callers uses this script. If nobody else waits, the second token takes the lock.
-- Otherwise the second token joins the queue behind all others. Only the call that gives up the lock inserts
-- the second token.
--
-- A caller that lost the reply may safely send the same call again. The second reply tells where the first
-- call has put the second token. If both granted and score are 0, the second token is nowhere, and the caller
-- must not use it again.
--
-- name: Requeue
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock, a sorted set of the waiters' tokens
-- KEYS[3]   waiters key        a hash with one entry for each token of the queue
-- KEYS[4]   holders key        the sorted set of the holders of shares
-- KEYS[5]   grants  channels   the prefix of the processes' channels, for messages about grants
-- KEYS[6..] counter key        the fence counter of the lock's slot; absent: the fence is 0
-- ARGV[1]   token   string     the token that gives up the lock
-- ARGV[2]   again   string     the second token, which no earlier call had
-- ARGV[3]   ttl     duration?  the lease of the second token; absent: the lease never ends
-- ARGV[4]   process string     the process that the server tells of a grant to the second token;
--     empty: none
-- ARGV[5]   barging duration?  the time in each second in which a free lock stays free,
--     even if its queue has waiters
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

-- After an error the second token is nowhere. The next call for a place meets the same error and reports it.
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
-- A place that lacks a part blocks other waiters. So the script writes all parts or takes the place away.
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
