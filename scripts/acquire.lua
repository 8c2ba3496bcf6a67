-- Takes a free lock, or confirms it when this token already owns it, so that
-- repeating the call after a lost reply is safe. A confirmed lock gets a fresh
-- lease and, where fences are counted, a fresh fence.
--
-- name: Acquire
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     owner token, unique per acquisition
-- ARGV[2]   ttl     duration?  lease; absent: never expires
-- returns: acquired bool, left duration, fence int

local lock, counter = KEYS[1], KEYS[2]
local token, ttl = ARGV[1], ARGV[2]

-- Reading first turns a key of another type into a WRONGTYPE error. SET NX
-- would call it a held lock, and its waiters would wait for ever.
local owner = redis.call('GET', lock)
if owner and owner ~= token then
  -- left is the holder's remaining time; -1 ms: the holder never expires.
  return {0, redis.call('PTTL', lock), 0}
end

-- A fence is the next number of the slot, lifted to the server's clock
-- (microseconds, rounded down to 65,536) whenever the count lags behind it: a
-- counter lost in a failover, a flush or an eviction restarts above every
-- number it gave out. Rounding keeps the lifts to 16 a second.
local fence = 0
if counter then
  fence = redis.call('INCR', counter)
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  local floor = micros - micros % 65536
  if fence < floor then
    fence = floor
    redis.call('SET', counter, fence)
  end
end

if ttl == '' then
  redis.call('SET', lock, token)
else
  redis.call('SET', lock, token, 'PX', ttl)
end
return {1, 0, fence}
