-- Takes a lock if it is free and nobody waits for it. It is what Join does with how = try, as
-- far as that is simple, and most locks are taken by it, because fewer words and a shorter text
-- cost the server less. Where it is not simple, the reply has outcome 0: for a free lock with a
-- queue, for a token that has the lock already, and for a counter that gives no fence. The caller
-- then calls Join, which knows what to do.
--
-- A caller that lost the reply may send the same call again: it gets outcome 0 if it has the lock.
--
-- name: Try
-- mode: write
-- KEYS[1]   lock    key       the lock
-- KEYS[2]   queue   key       the queue of the lock: a sorted set of those who wait
-- KEYS[3..] counter key       fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string    token of this acquisition, which no other has
-- ARGV[2]   ttl     duration? lease; absent: the lock never expires
-- returns: outcome int, value int

-- include: queue/next_fence.lua

local lock, queue, counter = KEYS[1], KEYS[2], KEYS[3]
local token, ttl = ARGV[1], ARGV[2]

-- Outcome 1: taken; the value is the fence. Outcome 2: another has the lock; the value is what is
-- left of its lease in milliseconds, or -1. Outcome 0: the lock is as it was.
if redis.call('EXISTS', lock, queue) ~= 0 then
  local holder = redis.call('GET', lock)
  if holder and holder ~= token then
    return {2, redis.call('PTTL', lock)}
  end
  return {0, 0}
end

-- The fence comes before the lock, so that there is nothing to undo if it fails.
local fence = next_fence(counter)
if type(fence) ~= 'number' then
  return {0, 0}
end

if ttl == '' then
  redis.call('SET', lock, token)
else
  redis.call('SET', lock, token, 'PX', ttl)
end
return {1, fence}
