-- Releases a lock as pass.lua does, for a process with more callers: it names a second token,
-- which takes the lock if nobody else waits, and joins the queue otherwise, behind all others.
-- Only the call that releases the lock inserts the second token. A caller that lost the reply
-- may safely send the same call again: a repetition tells where the first call has put the
-- second token. If that is nowhere, the token must not be used any more.
--
-- name: Requeue
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[3]   grants  channels   what the channels of all processes start with
-- KEYS[4..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     the token that gives up the lock, or its place in the queue
-- ARGV[2]   ttl     duration?  the lease with which this token has joined; absent: the lock never expires
-- ARGV[3]   process string     the process with which both tokens join
-- ARGV[4]   again   string     the second token, which no call had before
-- ARGV[5]   again_ttl duration? lease of the second token; absent: the lock never expires
-- ARGV[6]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: freed bool, granted bool, fence int, remaining duration, score int

-- include: queue/pass.lua
-- include: queue/enqueue.lua

local lock, queue, grants, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, process, again, again_ttl, barging = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local holder = redis.call('GET', lock)
if holder == token then
  local passed = pass(lock, queue, counter, grants, barging)
  if passed or redis.pcall('EXISTS', queue) ~= 0 or open_for(barging) > 0 then
    local score = enqueue(queue, member_of(again, again_ttl, process), 0)
    if type(score) ~= 'number' then
      return {1, 0, 0, 0, 0} -- the second token is nowhere, and its next call will have the error
    end
    return {1, 0, 0, 0, score}
  end
  local fence = next_fence(counter)
  if type(fence) ~= 'number' then
    return {1, 0, 0, 0, 0} -- as above
  end
  if again_ttl == '' then
    redis.call('SET', lock, again)
    return {1, 1, fence, -1, 0}
  end
  redis.call('SET', lock, again, 'PX', again_ttl)
  return {1, 1, fence, tonumber(again_ttl), 0}
end

redis.pcall('ZREM', queue, member_of(token, ttl, process))
if holder == again then
  local fence = next_fence(counter)
  if type(fence) ~= 'number' then
    return fence
  end
  if again_ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, again_ttl, 'GT')
  end
  return {0, 1, fence, redis.call('PTTL', lock), 0}
end
local score = redis.call('ZSCORE', queue, member_of(again, again_ttl, process))
return {0, 0, 0, 0, tonumber(score or 0)}
