-- Takes a lock if it is free and nobody waits for it. A lock that this token already holds is confirmed, so a
-- caller that lost the reply may safely send the same call again: it keeps its lease or gets the new one,
-- whichever ends later, and a new fence. A lock that several share, or that is free while others wait, is
-- left to Wait, which knows what to do.
--
-- name: Acquire
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of the tokens that wait; the lock itself:
--     nobody waits in a queue
-- KEYS[3..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     token of this acquisition, which no other has
-- ARGV[2]   ttl     duration?  lease; absent: the lock never expires
-- returns: outcome int, value int

-- include: include/fence.lua
-- Returns the next fence of a counter; 0 if there is no counter. If the counter is behind the server's clock
-- (in microseconds, rounded down to a multiple of 65,536), the script raises it to the clock, because a
-- failover may have set the counter back: it must not give out a fence twice. The rounding limits these
-- writes to 16 a second. A counter that is new, because there was none or the server lost it, starts at the
-- exact clock. That is above all former fences, because the server took more than a microsecond for each of
-- them. If it fails, it returns the error reply: the user may lack a right, or the counter may be of another
-- type.
local function next_fence(counter, clock)
  if not counter then
    return 0
  end
  local fence = redis.pcall('INCR', counter)
  if type(fence) ~= 'number' then
    return fence
  end
  local minimum = clock - clock % 65536
  if fence == 1 then
    minimum = clock
  end
  if fence < minimum then
    fence = minimum
    local raised = redis.pcall('SET', counter, string.format('%.0f', fence))
    if raised.err then
      return raised
    end
  end
  return fence
end

local lock, queue, counter = KEYS[1], KEYS[2], KEYS[3]
local token, ttl = ARGV[1], ARGV[2]

-- Outcome 1: the token has the lock; the value is the fence. Outcome 2: another has it; the value is what is
-- left of its lease in milliseconds, or -1. Outcome 0: the lock is as it was, and Wait is to be called.
local confirms = false
if queue == lock or redis.call('EXISTS', lock, queue) ~= 0 then
  local holder = redis.call('GET', lock)
  if queue ~= lock and (not holder or string.sub(holder, 1, 6) == 'rlock:') then
    return {0, 0}
  end
  confirms = holder == token
  if holder and not confirms then
    return {2, redis.call('PTTL', lock)}
  end
  if confirms then
    redis.call('PEXPIRE', lock, 1, 'GT') -- changes nothing: after this write a full memory refuses no other
  end
end

-- The fence comes before the lock, so that there is nothing to undo if it fails.
local fence = 0
if counter then
  local time = redis.call('TIME')
  fence = next_fence(counter, time[1] * 1000000 + time[2])
  if type(fence) ~= 'number' then
    return fence
  end
end

-- GT never shortens a lease: this call may have been delayed, and another call may have extended the lock
-- since.
if confirms and ttl == '' then
  redis.call('PERSIST', lock)
elseif confirms then
  redis.call('PEXPIRE', lock, ttl, 'GT')
elseif ttl == '' then
  redis.call('SET', lock, token)
else
  redis.call('SET', lock, token, 'PX', ttl)
end
return {1, fence}
