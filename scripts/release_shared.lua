-- Gives up a share of a lock. Those at the head of the queue who want what is free then get it, and
-- if it was the last share, the lock goes to the first in the queue, or is free. The reply tells
-- whether the token had a share. A token that had none leaves the queue, also one that waited for the
-- whole lock. A caller that lost the reply may safely send the same call again. Nobody else's share
-- changes, but a share whose lease is over is removed.
--
-- name: ReleaseShared
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   holders key        the sorted set of those who share the lock
-- KEYS[3]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[4]   counter key        fence counter of the lock's slot
-- KEYS[5]   grants  channels   what the channels of all processes start with
-- ARGV[1]   token   string     the token that gives up its share, or its place in the queue
-- ARGV[2]   ttl     duration?  the lease with which this token has joined; absent: the share never expires
-- ARGV[3]   process string     the process with which it has joined
-- ARGV[4]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: bool

-- include: queue/pass.lua
-- include: shared/holders.lua
-- include: shared/admit.lua

local lock, holders, queue, counter, grants = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl, process, barging = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- The place comes first: what follows must not grant anything to a token that gives up.
redis.pcall('ZREM', queue, member_of(token, ttl, process))

local value = redis.call('GET', lock)
local phase, limit = phase_of(value)
local _, permits = share_of(token)
local last = value == token -- the queue has passed the whole lock to it
local freed = last and 1 or 0
local now = 0
if phase then
  now = milliseconds()
  purge(holders, now)
  for i = 1, tonumber(permits or '0') do
    freed = freed + redis.call('ZREM', holders, phase .. ' ' .. i .. ' ' .. token)
  end
  last = redis.call('ZCARD', holders) == 0
end
if last then
  pass(lock, queue, counter, grants, barging)
elseif phase then
  if open_for(barging) == 0 then
    admit(lock, holders, queue, grants, phase, limit, now, '')
  end
  keep(lock, holders)
end
return freed > 0 and 1 or 0
