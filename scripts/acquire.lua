-- Takes a free lock. A lock that this token already holds is confirmed, so a caller that
-- lost the reply may safely send the same call again. A confirmed lock keeps its lease
-- or gets the new one, whichever ends later, and a new fence if it has fences.
--
-- name: Acquire
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     token of this acquisition, which no other has
-- ARGV[2]   ttl     duration?  lease; absent: the lock never expires
-- returns: acquired bool, remaining duration, fence int

local lock, counter = KEYS[1], KEYS[2]
local token, ttl = ARGV[1], ARGV[2]

-- Most locks are free, so one command checks the lock and takes it. NX refuses if the key
-- exists, whatever its type is.
local taken
if ttl == '' then
  taken = redis.pcall('SET', lock, token, 'NX')
else
  taken = redis.pcall('SET', lock, token, 'NX', 'PX', ttl)
end

if not taken or taken.err then
  -- GET fails with WRONGTYPE if the key is of another type. The caller must get that error,
  -- because it would otherwise wait for ever for a key that is no lock.
  local holder = redis.call('GET', lock)
  if holder and holder ~= token then
    -- remaining is what is left of the holder's lease; -1 ms: the lock never expires.
    return {0, redis.call('PTTL', lock), 0}
  end
  if not holder then
    -- The lock is free, but the server refused the write: OOM, READONLY …
    return taken or redis.error_reply('ERR the lock is free and was not taken')
  end
  taken = false -- this token holds the lock already
end

-- Frees the lock that this script has just taken, if the fence fails: the user may lack a
-- right, or the counter's key may be of another type. Redis does not undo the SET itself. A
-- second SET, with an expiry in the past, frees the lock because the user may lack the right
-- to DEL but does have the right to SET.
local function fail(failure)
  if taken then
    redis.call('SET', lock, token, 'PXAT', 1)
  end
  return failure
end

-- The fence is the next number of the slot's counter. If the counter is behind the server's
-- clock (in microseconds, rounded down to a multiple of 65,536), the script raises it to the
-- clock, because a failover may have set the counter back: it must not give out a fence
-- twice. The rounding limits these writes to 16 a second. A counter that is new, because
-- there was none or the server lost it, starts at the exact clock. That is above all former
-- fences, because the server took more than a microsecond for each of them.
local fence = 0
if counter then
  fence = redis.pcall('INCR', counter)
  if type(fence) ~= 'number' then
    return fail(fence)
  end
  local time = redis.pcall('TIME')
  if time.err then
    return fail(time)
  end
  local clock = time[1] * 1000000 + time[2]
  local minimum = clock - clock % 65536
  if fence == 1 then
    minimum = clock
  end
  if fence < minimum then
    fence = minimum
    local raised = redis.pcall('SET', counter, fence)
    if raised.err then
      return fail(raised)
    end
  end
end

if not taken then
  -- GT never shortens a lease: this call may have been delayed, and another call may have
  -- extended the lock since.
  if ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
  end
end
return {1, 0, fence}
