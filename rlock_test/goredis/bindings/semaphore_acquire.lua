-- Takes one of a number of permits, or confirms the one that this holder has.
-- A holder that dies gives its permit back when the lease ends.
--
-- name: SemaphoreAcquire
-- mode: write retryable
-- KEYS[1] permits key       sorted set of holders by the end of their lease
-- ARGV[1] holder  string    unique per permit
-- ARGV[2] most    int       permits there are
-- ARGV[3] lease   duration
-- returns: acquired bool, free int

-- include: shared/clock.lua
-- now_ms tells the server's clock in milliseconds since 1970. One clock for all
-- clients: theirs may differ by more than a window is long.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local now, most, lease = now_ms(), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local taken = redis.call('ZCARD', KEYS[1])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if taken >= most then
    return {0, 0}
  end
  taken = taken + 1
end
redis.call('ZADD', KEYS[1], now + lease, ARGV[1])
-- Not PEXPIRE GT: it takes a new set, which has no expiry, for one that lasts.
if redis.call('PTTL', KEYS[1]) < lease then
  redis.call('PEXPIRE', KEYS[1], lease)
end
return {1, most - taken}
