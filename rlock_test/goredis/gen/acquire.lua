-- Takes a lock if the lock is free and nobody waits for it.
--
-- The reply is an outcome with a value:
--
--   - Outcome 1: the token has the lock. The value is the fence.
--   - Outcome 2: another token has the lock. The value is the rest of that lease in milliseconds,
--     or -1 if that lease never ends.
--   - Outcome 0: the script changed nothing, and the caller must call Wait. The script leaves two
--     kinds of lock to Wait: a lock that has shares, and a free lock that has a queue.
--
-- A caller that lost the reply may safely send the same call again. A token that already has the lock keeps
-- the lock and gets a new fence. Its lease ends at the old end or at the new end, whichever is later.
--
-- name: Acquire
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock, a sorted set of the waiters' tokens; a caller that uses
--     no queue passes the lock itself
-- KEYS[3..] counter key        the fence counter of the lock's slot; absent: the fence is 0
-- ARGV[1]   token   string     the token of this acquisition, which no other acquisition has
-- ARGV[2]   ttl     duration?  the lease; absent: the lease never ends
-- returns: outcome int, value int

-- include: include/fence.lua
-- Returns the next fence of a counter, or 0 if there is no counter. If a command fails, the function returns
-- the error reply. The user may lack a right, or the counter may be of another type.
--
-- A failover may set the counter back, but the counter must not give out a fence twice. So the function
-- compares the counter with the server's clock in microseconds, rounded down to a multiple of 65,536. If the
-- counter is behind, the function raises the counter to the clock. The rounding limits these writes to 16 a
-- second.
--
-- A counter that is new, or that the server lost, starts at the exact clock. The clock is above all former
-- fences, because the server took more than a microsecond for each fence.
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

-- Most often both keys are absent, so one EXISTS replaces the other reads.
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
    redis.call('PEXPIRE', lock, 1, 'GT') -- no change; after a first write, a full server refuses nothing
  end
end

-- The fence comes before the lock. If the fence fails, there is nothing to undo.
local fence = 0
if counter then
  local time = redis.call('TIME')
  fence = next_fence(counter, time[1] * 1000000 + time[2])
  if type(fence) ~= 'number' then
    return fence
  end
end

-- GT never shortens a lease. This call may be late, and another call may have extended the lock before it.
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
