-- Takes many independent locks, each with its own token, if they are free and nobody waits for them.
--
-- The reply has an outcome with a value for each lock. No lock depends on another lock:
--
--   - Outcome 1: the token has the lock. The value is the fence.
--   - Outcome 2: another token has the lock. The value is the rest of that lease in milliseconds,
--     or -1 if that lease never ends.
--   - Outcome 0: the script did not take the lock, and the caller must call Acquire or Wait. The
--     lock has a queue or shares, or the token already has the lock, or the server replied an error.
--
-- The script takes a lock once, even if the call names the lock twice. A caller that lost the reply may send
-- the same call again. It gets outcome 0 for the locks that it has.
--
-- name: AcquireMany
-- mode: write
-- KEYS[1..] keys  key    the locks, a thousand at most; then their queues; then the fence counters of the
--     first locks. A lock without a counter gets the fence 0
-- ARGV[1..] words string the token and the lease of each lock, in the order of the locks. The lease is in
--     milliseconds; empty: the lease never ends
-- returns: [](outcome int, value int)

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

local count = math.floor(#ARGV / 2)
local replies = {}
local now = 0
if #KEYS > 2 * count then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- SET has NX because a call may name a lock twice. All writes here need memory. So a server without memory
-- refuses each write by itself, and the write for one lock never makes the server allow the next.
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

-- Most often all locks are free. One EXISTS shows that.
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
