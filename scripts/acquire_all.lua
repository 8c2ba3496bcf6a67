-- Takes every lock of a set, or none. Locks that this token already owns are
-- confirmed, so that repeating the call after a lost reply is safe. When one is
-- held by another token nothing changes, and the first such lock is reported.
--
-- name: AcquireAll
-- mode: write retryable
-- KEYS[1..] keys  key        the locks, then the fence counters of their slots; no counters: no fence
-- ARGV[1]   token string     owner token, unique per acquisition
-- ARGV[2]   ttl   duration?  lease of every lock; absent: they never expire
-- ARGV[3]   locks int        how many of the keys are locks
-- returns: acquired bool, left duration, fence int, held int

local token, ttl, locks = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- All reads stand before the first write: Redis does not roll back, so a held
-- lock or a key of another type must stop the script while nothing has changed.
for i = 1, locks do
  local owner = redis.call('GET', KEYS[i])
  if owner and owner ~= token then
    -- left is the holder's remaining time; -1 ms: the holder never expires.
    return {0, redis.call('PTTL', KEYS[i]), 0, i}
  end
end

-- One fence for the whole set: above the last number of every slot it touches,
-- and above the server's clock as in acquire.lua. Every counter then stands at
-- it or above, so that the next fence of any of these locks is larger.
local fence, counts = 0, {}
for i = locks + 1, #KEYS do
  counts[i] = redis.call('INCR', KEYS[i])
  fence = math.max(fence, counts[i])
end
if fence > 0 then
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  fence = math.max(fence, micros - micros % 65536)
end
for i = locks + 1, #KEYS do
  if counts[i] < fence then
    redis.call('SET', KEYS[i], fence)
  end
end

-- One SET a lock rather than one MSET of them all: unpack() gives out at about
-- eight thousand values, and MSET sets no lease.
for i = 1, locks do
  if ttl == '' then
    redis.call('SET', KEYS[i], token)
  else
    redis.call('SET', KEYS[i], token, 'PX', ttl)
  end
end
return {1, 0, fence, 0}
