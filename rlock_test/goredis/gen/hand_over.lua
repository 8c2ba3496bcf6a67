-- Gives a held lock to another token, with a new lease. The lock is never free in between. If
-- neither token holds the lock, the script changes nothing. A caller that lost the reply may
-- safely send the same call again: it confirms the next holder.
--
-- The reply also tells for how many microseconds the first in the queue of the lock has waited;
-- 0: nobody waits, or the server cannot tell. Callers that stand in no queue count as one that waits
-- since the lock may stay free for them. The script leaves the queue as it is. The caller
-- decides when the lock goes to another process, and runs requeue.lua then.
--
-- name: HandOver
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock; the lock's own name: none
-- KEYS[3..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     the holder's token
-- ARGV[2]   next    string     the next holder's token
-- ARGV[3]   ttl     duration?  lease of the next holder; absent: the lock never expires
-- ARGV[4]   fences  int        how many consecutive fences to reserve at most: one for the next holder,
--                              the others for holders to which the lock passes without a call
-- ARGV[5]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: handed_over bool, fence int, fences int, waits int

-- include: include/barging.lua
-- Returns for how many milliseconds from now on a free lock stays free although processes wait for it; 0: the
-- first of them gets it. A lock does so for the first barging milliseconds of each second of the server's
-- clock. In that time callers that stand in no queue, such as those of other libraries, can take it, which is
-- called barging. The clock alone says when, so no key has to remember it, and the locks that a process waits
-- for one after the other are open at the same time.
local function open_for(barging, now)
  local length = tonumber(barging) or 0
  if length <= 0 then
    return 0
  end
  return math.max(length - now % 1000, 0)
end

local lock, queue, counter = KEYS[1], KEYS[2], KEYS[3]
local token, next, ttl, fences, barging = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local holder = redis.call('GET', lock)
if holder ~= token and holder ~= next then
  return {0, 0, 0, 0}
end

-- A waiter's score is the server's clock when it joined. It may be ahead of the clock, so
-- whoever waits has waited for a microsecond at least.
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

-- PEXPIRE GT 1 changes nothing. It comes first because a server that is out of memory allows it, and
-- allows any command after the first write of a script, so SET too.
redis.call('PEXPIRE', lock, 1, 'GT')

-- The first fence is the next number of the counter, and not behind the server's clock, for
-- the reasons in include/fence.lua. The script always reserves that one. It reserves others only
-- up to the clock, because a counter that the server loses starts again at the clock: it must
-- not give out a reserved fence.
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
  -- GT never shortens a lease: this call may have been delayed, and another call may have
  -- extended the lock since.
  redis.call('PEXPIRE', lock, ttl, 'GT')
end
return {1, fence, reserved, waits}
