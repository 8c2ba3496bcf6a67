-- Releases the locks of a set that one token holds, and passes each on to the process that waits
-- first for it, as Pass does. Without that, a lock would be free while others wait, until one of
-- them looks again, and whoever comes meanwhile would overtake them. Locks that the token does not
-- hold stay as they are. The reply is how many locks it released. A caller that lost the reply may
-- safely send the same call again, and cannot tell then whether the first call released the others or
-- they were lost. No lock fails to be released because of its queue, as for Pass.
--
-- name: PassAll
-- mode: write retryable
-- KEYS[1]   grants channels what the channels of all processes start with
-- KEYS[2..] keys   key      the locks, a thousand at most; then their queues; then the fence counters of
--     their slots, one for each lock, or one for all. If there are none, a lock that is passed on has no fence.
-- ARGV[1]   token  string   token of the holder
-- ARGV[2]   locks  int      how many of the keys are locks
-- ARGV[3]   barging duration? for how long in each second a free lock stays free although others wait
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

-- include: queue/barging.lua

-- For most sets nobody waits. What is below would do the same, but the server would first have to make
-- all its functions.
if count == 0 then
  return 0
end
if redis.call('EXISTS', unpack(KEYS, locks + 2, 2 * locks + 1)) == 0 or open_for(ARGV[3]) > 0 then
  redis.call('DEL', unpack(owned, 1, count))
  return count
end

-- include: queue/grant.lua

-- Each lock goes to the first in its queue that hears of it. If nobody does, or the server can tell
-- nobody, the lock is free, and the next that asks passes it on. One script skips 64 waiters at most
-- that do not hear.
local next, common = 1, nil
if #KEYS == 2 * locks + 2 then
  common = KEYS[#KEYS]
end
for _ = 1, count + 64 do
  local lock, queue, counter = owned[next], KEYS[locks + 1 + at[next]], common or KEYS[2 * locks + 1 + at[next]]
  local head, granted = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES'), nil
  if not head.err and head[1] then
    granted = grant(lock, queue, counter, grants, head[1], head[2])
  end
  if granted == nil then
    redis.call('DEL', lock)
  end
  if granted ~= false then
    next = next + 1
  end
  if next > count then
    return count
  end
end
redis.call('DEL', unpack(owned, next, count))
return count
