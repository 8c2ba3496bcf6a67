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

-- Most locks are free: one command tells that and takes them. NX leaves a key alone that
-- exists, of whatever type.
local taken
if ttl == '' then
  taken = redis.pcall('SET', lock, token, 'NX')
else
  taken = redis.pcall('SET', lock, token, 'NX', 'PX', ttl)
end

if not taken or taken.err then
  -- GET turns a key of another type into a WRONGTYPE error: its waiters would wait for
  -- ever otherwise.
  local owner = redis.call('GET', lock)
  if owner and owner ~= token then
    -- left is the holder's remaining time; -1 ms: the holder never expires.
    return {0, redis.call('PTTL', lock), 0}
  end
  if not owner then
    -- Free, but the server does not take writes: OOM, READONLY …
    return taken or redis.error_reply('ERR the lock is free and was not taken')
  end
  taken = false -- ours already
end

-- What was free must be free again when there is no fence for it, as a right is missing
-- or something else has the counter's name: Redis does not roll back. The user may lack
-- the right to DEL, but not to SET, which has just taken the lock: a lease that is over
-- frees it at once.
local function fail(failure)
  if taken then
    redis.call('SET', lock, token, 'PXAT', 1)
  end
  return failure
end

-- A fence is the next number of the slot, lifted to the server's clock
-- (microseconds, rounded down to 65,536) whenever the count lags behind it, so
-- that a counter that fell back in a failover goes on above what it gave out.
-- Rounding keeps the lifts to 16 a second. A counter that starts anew, after a
-- flush or an eviction, starts at the exact clock: above all numbers before, as
-- each of them took more than a microsecond.
local fence = 0
if counter then
  fence = redis.pcall('INCR', counter)
  if type(fence) ~= 'number' then
    return fail(fence)
  end
  local now = redis.pcall('TIME')
  if now.err then
    return fail(now)
  end
  local micros = now[1] * 1000000 + now[2]
  local least = micros - micros % 65536
  if fence == 1 then
    least = micros
  end
  if fence < least then
    fence = least
    local lifted = redis.pcall('SET', counter, fence)
    if lifted.err then
      return fail(lifted)
    end
  end
end

if not taken then
  -- GT: a call that was late on its way must not cut a lease that has been extended
  -- since.
  if ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
  end
end
return {1, 0, fence}
