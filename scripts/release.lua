-- Gives up what a token has: a lock, a share of it, or a place in the queue. What is free then goes to the
-- process that waits first, and to those behind it as far as that is free too, in one step, so that nobody
-- else gets in between. If nobody waits, or the server can tell nobody, it is free.
--
-- The reply is 1 if the token had the lock or a share of it, and otherwise 0. A waiter that gives up sends
-- this script too, and so does whoever has an unanswered call. All may safely send it again. It never fails
-- because of the queue.
--
-- name: Release
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of the tokens that wait
-- KEYS[3]   waiters key        the hash that says who they are
-- KEYS[4]   holders key        the sorted set of those who share the lock
-- KEYS[5]   grants  channels   what the channels of all processes start with
-- KEYS[6..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     the token that gives up what it has
-- ARGV[2]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: int

-- Mostly nobody waits, nothing is left of those who have shared the lock, and this is enough. What is below
-- would do the same, but the server would first have to make all its functions.
local whole = redis.call('GET', KEYS[1]) == ARGV[1]
if whole and redis.call('EXISTS', KEYS[2], KEYS[4]) == 0 then
  return redis.call('DEL', KEYS[1])
end

-- include: include/free.lua

if free(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], whole, ARGV[2]) then
  return 1
end
return 0
