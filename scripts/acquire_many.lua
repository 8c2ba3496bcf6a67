-- Takes many locks that do not belong together, each with a token of its own, if they are free and nobody
-- waits for them, as Acquire does. Where that is not simple, such as for a lock with a queue, for one that
-- several share, for a token that has the lock already and for any error, the reply has outcome 0. The caller
-- then calls Acquire or Wait, which know what to do. So no lock depends on another.
--
-- A lock that is named twice is taken once. A caller that lost the reply may send the same call
-- again: it gets outcome 0 for the locks that it has.
--
-- name: AcquireMany
-- mode: write
-- KEYS[1..] keys  key    the locks, a thousand at most; then their queues; then the fence counters
--     of the first locks. The locks for which there is no counter get no fence.
-- ARGV[1..] words string token and lease of each lock, in the order of the locks. The lease is in
--     milliseconds; empty: the lock never expires
-- returns: [](outcome int, value int)

-- include: include/fence.lua

-- Outcome 1: taken; the value is the fence. Outcome 2: another has the lock; the value is what is
-- left of its lease in milliseconds, or -1. Outcome 0: nothing is done.
local count = math.floor(#ARGV / 2)
local replies = {}
local now = 0
if #KEYS > 2 * count then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- SET has NX because a lock may be named twice. There are no other writes, and a server without
-- memory refuses each of them, so that one lock never makes it take another.
local function take(lock, counter, token, ttl)
  local fence = next_fence(counter, now)
  if type(fence) ~= 'number' then
    return nil
  end
  local taken
  if ttl == '' then
    taken = redis.pcall('SET', lock, token, 'NX')
  else
    taken = redis.pcall('SET', lock, token, 'NX', 'PX', ttl)
  end
  if taken and taken.ok then
    return fence
  end
  return nil
end

-- Most often all locks are free, and one command tells so.
local free = count > 0 and redis.call('EXISTS', unpack(KEYS, 1, 2 * count)) == 0
for i = 1, count do
  local lock, queue, token = KEYS[i], KEYS[count + i], ARGV[2 * i - 1]
  local outcome, value = 0, 0
  if free or redis.call('EXISTS', lock, queue) == 0 then
    local fence = take(lock, KEYS[2 * count + i], token, ARGV[2 * i])
    if fence then
      outcome, value = 1, fence
    end
  elseif redis.call('EXISTS', queue) == 0 then
    local holder = redis.pcall('GET', lock)
    local left = redis.pcall('PTTL', lock)
    local whole = type(holder) == 'string' and string.sub(holder, 1, 6) ~= 'rlock:'
    if whole and holder ~= token and type(left) == 'number' then
      outcome, value = 2, left
    end
  end
  replies[#replies + 1] = outcome
  replies[#replies + 1] = value
end
return replies
