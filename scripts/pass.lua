-- Releases a lock and passes it on to the process that waits first, in one step, so that
-- nobody else gets in between. If nobody waits, the lock is free. The reply is 1 if the token held
-- the lock. If it did not, the script takes the token out of the queue. So a waiter that gives up
-- sends this script too, and so does whoever has an unanswered call. All may safely send it again. If
-- the user lacks a right, the script may fail, and then it has not released the lock. Otherwise it
-- never fails because of the queue: if the server can tell nobody, it frees the lock.
--
-- The reply is 2 if others share the lock and the first in the queue wants a share too, and otherwise
-- 0. The token may have kept that one out. ReleaseShared of the token then lets in whom it can; this
-- script has no right to the key of those who share the lock, because most locks are never shared.
--
-- name: Pass
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[3]   grants  channels   what the channels of all processes start with
-- KEYS[4..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     the token that gives up the lock, or its place in the queue
-- ARGV[2]   ttl     duration?  the lease with which this token has joined; absent: the lock never expires
-- ARGV[3]   process string     the process that it named when it joined
-- ARGV[4]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: int

local lock, queue, grants, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, process, barging = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Mostly nobody waits, and this is enough. The lines below would do the same, but the server would
-- first have to make all their functions.
local holder = redis.call('GET', lock)
if holder == token and redis.call('EXISTS', queue) == 0 then
  redis.call('DEL', lock)
  return 1
end

-- include: queue/pass.lua

if holder == token then
  pass(lock, queue, counter, grants, barging)
  return 1
end
redis.pcall('ZREM', queue, member_of(token, ttl, process))
if holder and string.match(holder, '^rlock:shared ') then
  local head = redis.pcall('ZRANGE', queue, 0, 0)
  if head[1] and string.match(head[1], '^%d+:[^:]*:rlock:share:') then
    return 2
  end
end
return 0
