-- Takes every lock of a set, or none. Locks that this token already owns are
-- confirmed, so that repeating the call after a lost reply is safe. When one is
-- held by another token it is reported, and nothing changes unless the caller
-- collects: then the locks before it are taken.
--
-- name: AcquireAll
-- mode: write retryable
-- KEYS[1..] keys  key        the locks, then the fence counters of their slots; no counters: no fence
-- ARGV[1]   token string     owner token, unique per acquisition
-- ARGV[2]   ttl   duration?  lease of every lock; absent: they never expire
-- ARGV[3]   locks int        how many of the keys are locks
-- ARGV[4]   collect bool     whether to take the locks before the first that is held
-- returns: acquired bool, left duration, fence int, held int

local token, ttl, locks, collect = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
if not locks or locks < 1 or locks > #KEYS then
  return redis.error_reply('ERR the number of locks is not between 1 and the number of keys')
end

-- One command a lock rather than one MSET of them all: unpack() gives out at
-- about eight thousand values, and MSET sets no lease. GT as in acquire.lua.
local owned = {}
local function take(count)
  for i = 1, count do
    if owned[i] and ttl == '' then
      redis.call('PERSIST', KEYS[i])
    elseif owned[i] then
      redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
    elseif ttl == '' then
      redis.call('SET', KEYS[i], token)
    else
      redis.call('SET', KEYS[i], token, 'PX', ttl)
    end
  end
end

-- Most often all of them are free. EXISTS counts keys of any type, and tells that for
-- a thousand at once.
local exist = 0
for first = 1, locks, 1000 do
  exist = exist + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 999, locks)))
end

-- All reads stand before the first write: Redis does not roll back, so a held
-- lock or a key of another type must stop the script while nothing has changed.
for i = 1, exist > 0 and locks or 0 do
  owned[i] = redis.call('GET', KEYS[i])
  if owned[i] and owned[i] ~= token then
    -- left is the holder's remaining time; -1 ms: the holder never expires.
    local left = redis.call('PTTL', KEYS[i])
    if collect then
      take(i - 1)
    end
    return {0, left, 0, i}
  end
end

-- One fence for the whole set: above the last number of every slot it touches,
-- and above the server's clock as in acquire.lua. Every counter then stands at
-- it or above, so that the next fence of any of these locks is larger.
local fence, fresh, counts = 0, false, {}
for i = locks + 1, #KEYS do
  counts[i] = redis.call('INCR', KEYS[i])
  fence = math.max(fence, counts[i])
  fresh = fresh or counts[i] == 1
end
if fence > 0 then
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  if not fresh then
    micros = micros - micros % 65536
  end
  fence = math.max(fence, micros)
end
for i = locks + 1, #KEYS do
  if counts[i] < fence then
    redis.call('SET', KEYS[i], fence)
  end
end

take(locks)
return {1, 0, fence, 0}
