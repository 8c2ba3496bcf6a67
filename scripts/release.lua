-- Gives up what a token has: a lock, a share of a lock, or a place in the queue.
--
-- In the same step, the server gives what is free to the first waiter, so no other caller takes it in
-- between. The waiters behind the first get what they ask for, as far as that is free too. The lock stays
-- free in three cases: nobody waits, the server can tell no waiter, or the first part of the present second
-- is reserved for barging (see the argument barging).
--
-- The reply is 1 if the token had the lock or a share of it, and 0 otherwise.
--
-- A caller may safely send the same call again. A waiter that gives up also sends this script, and a
-- caller may send it after a call that got no answer. The script never fails because of the queue.
--
-- name: Release
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock, a sorted set of the waiters' tokens
-- KEYS[3]   waiters key        a hash with one entry for each token of the queue
-- KEYS[4]   holders key        the sorted set of the holders of shares
-- KEYS[5]   grants  channels   the prefix of the processes' channels, for messages about grants
-- KEYS[6..] counter key        the fence counter of the lock's slot; absent: the fence is 0
-- ARGV[1]   token   string     the token that gives up
-- ARGV[2]   barging duration?  the time in each second in which a free lock stays free,
--     even if its queue has waiters
-- returns: int

-- Most often there is no queue and no set of holders, and DEL is enough. The code below does the same, but
-- slower, because the server first has to create all functions of that code.
local whole = redis.call('GET', KEYS[1]) == ARGV[1]
if whole and redis.call('EXISTS', KEYS[2], KEYS[4]) == 0 then
  return redis.call('DEL', KEYS[1])
end

-- include: include/free.lua

if free(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], whole, ARGV[2]) then
  return 1
end
return 0
