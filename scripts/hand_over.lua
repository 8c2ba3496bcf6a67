-- Gives a held lock to the next token, with a new lease. The lock is never free in between.
--
-- If neither token has the lock, the script changes nothing. The script leaves the queue as it is. The
-- caller decides when the lock goes to another process, and then calls Requeue.
--
-- waits tells how long the first waiter in the queue has waited, in microseconds. It is 0 if nobody waits, or
-- if the call names no queue. In the barging time of each second, the callers outside the queue count as one
-- waiter, which has waited since that time began.
--
-- A caller that lost the reply may safely send the same call again. The script then confirms the next token.
--
-- name: HandOver
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock; the lock itself: there is no queue
-- KEYS[3..] counter key        the fence counter of the lock's slot; absent: the fence is 0
-- ARGV[1]   token   string     the token of the holder
-- ARGV[2]   next    string     the token of the next holder
-- ARGV[3]   ttl     duration?  the lease of the next holder; absent: the lease never ends
-- ARGV[4]   fences  int        the most consecutive fences to reserve: one for the next holder, the others
--     for later holders that get the lock without a call
-- ARGV[5]   barging duration?  the time in each second in which a free lock stays free,
--     even if its queue has waiters
-- returns: handed_over bool, fence int, fences int, waits int

-- include: include/barging.lua

local lock, queue, counter = KEYS[1], KEYS[2], KEYS[3]
local token, next, ttl, fences, barging = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local holder = redis.call('GET', lock)
if holder ~= token and holder ~= next then
  return {0, 0, 0, 0}
end

-- A waiter's score is the server's clock at the time when the waiter joined. The score may be ahead of the
-- clock, so each waiter counts as waiting for at least one microsecond.
local waits = 0
if queue ~= lock then
  local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  if head[2] or barging ~= '' then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    if head[2] then
      waits = math.max(now - tonumber(head[2]), 1)
    end
    local open = open_for(barging, math.floor(now / 1000))
    if open > 0 then
      waits = math.max(waits, ((tonumber(barging) or 0) - open) * 1000, 1)
    end
  end
end

-- PEXPIRE GT 1 changes nothing. It comes first because a server that is out of memory allows PEXPIRE. After
-- the first write of a script, that server allows every command, and the script needs SET.
redis.call('PEXPIRE', lock, 1, 'GT')

-- The first fence is the next number of the counter. It is not behind the server's clock, for the reasons in
-- include/fence.lua. The script always reserves the first fence. It reserves more fences only up to the
-- clock. A counter that the server loses starts again at the clock, and must not repeat a reserved fence.
local fence, reserved = 0, 0
if counter then
  local last = tonumber(redis.call('GET', counter) or 0)
  local time = redis.call('TIME')
  local clock = time[1] * 1000000 + time[2]
  local minimum = clock - clock % 65536
  if last == 0 then
    minimum = clock
  end
  fence = math.max(last + 1, minimum)
  reserved = math.max(1, math.min(fences, clock - fence + 1))
  redis.call('SET', counter, fence + reserved - 1)
end

if holder == token and ttl == '' then
  redis.call('SET', lock, next)
elseif holder == token then
  redis.call('SET', lock, next, 'PX', ttl)
elseif ttl == '' then
  redis.call('PERSIST', lock)
else
  -- GT never shortens a lease. This call may be late, and another call may have extended the lock before it.
  redis.call('PEXPIRE', lock, ttl, 'GT')
end
return {1, fence, reserved, waits}
