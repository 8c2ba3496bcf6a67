-- Takes tokens from a bucket that fills at a constant rate up to its capacity.
-- What it refuses costs nothing, and wait tells when it would be granted.
--
-- name: TokenBucket
-- mode: write
-- KEYS[1] bucket   key    hash of the tokens left and when they were counted
-- ARGV[1] capacity int    tokens of a full bucket
-- ARGV[2] rate     float  tokens a second, above 0
-- ARGV[3] cost     int    tokens to take
-- returns: granted bool, tokens float, wait duration?
-- errors: TOO_EXPENSIVE

-- include: shared/clock.lua
-- now_ms tells the server's clock in milliseconds since 1970. One clock for all
-- clients: theirs may differ by more than a window is long.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local capacity, rate, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if cost > capacity then
  return redis.error_reply('TOO_EXPENSIVE the bucket never holds ' .. cost .. ' tokens')
end

local now = now_ms()
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(state[1]) or capacity
-- The clock may step back; then nothing has been filled in.
local elapsed = math.max(0, now - (tonumber(state[2]) or now))
tokens = math.min(capacity, tokens + elapsed * rate / 1000)

local granted = tokens >= cost
if granted then
  tokens = tokens - cost
end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', now)
-- A bucket that has had the time to fill up is as good as none.
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / rate * 1000) + 1000)
if granted then
  return {1, tostring(tokens), false}
end
return {0, tostring(tokens), math.ceil((cost - tokens) / rate * 1000)}
