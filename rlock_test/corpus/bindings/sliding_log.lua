-- Admits a request if fewer than limit were admitted in the window that ends
-- now. It remembers every admitted request, which is exact and takes memory in
-- proportion to the limit; for large limits see sliding_counter.lua.
--
-- name: SlidingLog
-- mode: write
-- KEYS[1] log    key       sorted set of the admitted requests by their time
-- ARGV[1] limit  int       requests a window
-- ARGV[2] length duration  length of the window
-- ARGV[3] id     string    the request, unique in the window
-- returns: allowed bool, retry duration?

-- include: shared/clock.lua
-- now_ms tells the server's clock in milliseconds since 1970. One clock for all
-- clients: theirs may differ by more than a window is long.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local limit, length = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - length)
if redis.call('ZCARD', KEYS[1]) < limit then
  redis.call('ZADD', KEYS[1], now, ARGV[3])
  redis.call('PEXPIRE', KEYS[1], length)
  return {true, false}
end

-- There is room again once the oldest request leaves the window.
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if not oldest[2] then
  return {false, length} -- a limit of 0 admits nothing, ever
end
return {false, oldest[2] + length - now}
