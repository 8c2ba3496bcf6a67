-- Releases many locks that do not belong together, each held by a token of its own, and passes
-- each on to the process that waits first for it, as Pass does. Where that is not simple,
-- because a token does not hold its lock or because of any error, the reply has 0. The caller then
-- calls Pass, which knows what to do. So no lock depends on another.
--
-- A lock that is named twice is released once. A caller that lost the reply may send the same
-- call again: it gets 0 for the locks that it has released.
--
-- name: PassMany
-- mode: write
-- KEYS[1]   grants channels what the channels of all processes start with
-- KEYS[2..] keys   key      the locks, a thousand at most; then their queues; then the fence counters of
--     their slots. If there are no counters, a lock that is passed on has no fence.
-- ARGV[1]   barging duration? for how long in each second a free lock stays free although others wait
-- ARGV[2..] tokens string   token of each lock
-- returns: []int

local grants, count = KEYS[1], #ARGV - 1
local replies = {}
if count == 0 then
  return replies
end

-- MGET answers nil for a key of another type, which no token equals.
local holders = redis.call('MGET', unpack(KEYS, 2, count + 1))
local waited = redis.call('EXISTS', unpack(KEYS, count + 2, 2 * count + 1)) > 0

-- For most locks nobody waits, and one DEL frees all that are held. If the server refuses it, none is
-- freed. If it frees fewer, a lock is named twice, and the first one who holds it has released it.
if not waited then
  local held = {}
  for i = 1, count do
    local freed = 0
    if holders[i] == ARGV[i + 1] then
      freed = 1
      held[#held + 1] = KEYS[i + 1]
    end
    replies[i] = freed
  end
  if #held == 0 then
    return replies
  end
  local deleted = redis.pcall('DEL', unpack(held))
  if deleted == #held then
    return replies
  end
  local once, seen = {}, {}
  for i = 1, count do
    local lock, freed = KEYS[i + 1], 0
    if type(deleted) == 'number' and holders[i] == ARGV[i + 1] and not seen[lock] then
      freed = 1
      seen[lock] = true
    end
    once[i] = freed
  end
  return once
end

-- include: queue/grant.lua
-- include: queue/barging.lua

-- The first in the queue gets the lock. If nobody hears of it, the lock stays as it is, and Pass
-- looks further. If the server can tell nobody, the lock is free. An error of one lock does not keep
-- the others from being released, so everything is called by pcall. The holder is read again,
-- because a lock may be named twice.
local open = open_for(ARGV[1]) > 0
for i = 1, count do
  local lock, queue, freed = KEYS[i + 1], KEYS[count + i + 1], 0
  if holders[i] == ARGV[i + 1] and redis.pcall('GET', lock) == ARGV[i + 1] then
    local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local ok, granted = true, nil
    if not open and not head.err and head[1] then
      ok, granted = pcall(grant, lock, queue, KEYS[2 * count + i + 1], grants, head[1], head[2])
    end
    if ok and (granted or granted == nil and type(redis.pcall('DEL', lock)) == 'number') then
      freed = 1
    end
  end
  replies[i] = freed
end
return replies
