-- Releases the locks of a set that one token holds, and passes each on to the process that waits
-- first for it, as Pass does. Without that, a lock would stay free until a process that waits looks
-- again. Locks that the token does not hold stay as they are. The reply is how many locks it
-- released. A caller that lost the reply may safely send the same call again, and cannot tell then
-- whether the first call released the others or they were lost.
--
-- name: PassAll
-- mode: write retryable
-- KEYS[1]   grants channels what the channels of all processes start with
-- KEYS[2..] keys   key      the locks, a thousand at most; then their queues; then the fence counters of
--     their slots. If there are no counters, a lock that is passed on has no fence.
-- ARGV[1]   token  string   token of the holder
-- ARGV[2]   locks  int      how many of the keys are locks
-- returns: int

local grants, token, locks = KEYS[1], ARGV[1], tonumber(ARGV[2])
if not locks or locks < 1 or locks > 1000 or 2 * locks >= #KEYS then
  return redis.error_reply('ERR the number of locks does not fit the keys')
end

-- All reads of locks come before the first write, so if a key is of another type, the script ends
-- before it changes anything. MGET answers nil for such a key, but GET then fails.
local holders = redis.call('MGET', unpack(KEYS, 2, locks + 1))
local owned, at, count = {}, {}, 0
for i = 1, locks do
  if holders[i] == token then
    count = count + 1
    owned[count], at[count] = KEYS[i + 1], i
  elseif not holders[i] then
    redis.call('GET', KEYS[i + 1])
  end
end

-- For most sets nobody waits.
if redis.call('EXISTS', unpack(KEYS, locks + 2, 2 * locks + 1)) == 0 then
  if count > 0 then
    redis.call('DEL', unpack(owned, 1, count))
  end
  return count
end

-- include: queue/grant.lua

-- The first in the queue gets the lock. If nobody hears of it, the lock is free, and the next that
-- asks passes it on. Errors of the queue keep no lock from being released.
for i = 1, count do
  local lock, queue, granted = owned[i], KEYS[locks + at[i] + 1], nil
  local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
  if not head.err and head[1] then
    granted = grant(lock, queue, KEYS[2 * locks + at[i] + 1], grants, head[1], head[2])
  end
  if not granted then
    redis.call('DEL', lock)
  end
end
return count
