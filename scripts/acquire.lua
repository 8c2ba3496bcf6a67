-- Takes a free lock, or confirms it when this token already owns it, so that
-- repeating the call after a lost reply is safe. A confirmed lock keeps its lease
-- or gets the new one, whichever is longer, and a fresh fence if it has fences.
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
-- (microseconds, rounded down to 65,536) whenever the count lags behind it, so
-- that a counter that fell back in a failover goes on above what it gave out.
-- Rounding keeps the lifts to 16 a second. A counter that starts anew, after a
-- flush or an eviction, starts at the exact clock: above all numbers before, as
-- each of them took more than a microsecond.
local fence = 0
if counter then
  fence = redis.call('INCR', counter)
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  local least = micros - micros % 65536
  if fence == 1 then
    least = micros
  end
  if fence < least then
    fence = least
    redis.call('SET', counter, fence)
  end
end

if owner then
  -- Ours already. GT: a call that was late on its way must not cut a lease that
  -- has been extended since.
  if ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
  end
elseif ttl == '' then
  redis.call('SET', lock, token)
else
  redis.call('SET', lock, token, 'PX', ttl)
end
return {1, 0, fence}
