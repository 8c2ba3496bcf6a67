-- Gives a permit that is still held a new lease, counted from now. A permit whose
-- lease has ended stays lost, even if nobody has taken it since.
--
-- name: SemaphoreRefresh
-- mode: write retryable
-- KEYS[1] permits key       sorted set of holders by the end of their lease
-- ARGV[1] holder  string
-- ARGV[2] lease   duration
-- returns: until time
-- errors: PERMIT_LOST

-- include: shared/clock.lua
-- now_ms tells the server's clock in milliseconds since 1970. One clock for all
-- clients: theirs may differ by more than a window is long.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local now = now_ms()
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then
  return redis.error_reply('PERMIT_LOST its lease has ended')
end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
return {now + ARGV[2]}
