-- Admits a request by an estimate of the last window: the count of the current
-- window and that part of the previous one which the sliding window still
-- covers. It takes two small counters, whatever the limit.
--
-- name: SlidingCounter
-- mode: write
-- KEYS[1] counts key       hash of the current window's number and count, and the count before
-- ARGV[1] limit  int       requests a window
-- ARGV[2] length duration  length of a window
-- ARGV[3] at     time      when the request arrived
-- returns: allowed bool, used float

local limit, length, at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local state = redis.call('HMGET', KEYS[1], 'window', 'count', 'before')
local last, count, before = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(state[3] or 0)

-- A request that was slow to arrive counts at the start of the present window.
at = math.max(at, last * length)
local window = math.floor(at / length)
if window == last + 1 then
  before, count = count, 0
elseif window > last then
  before, count = 0, 0
end

local used = count + before * (1 - (at % length) / length)
local allowed = used + 1 <= limit
if allowed then
  count, used = count + 1, used + 1
end
redis.call('HSET', KEYS[1], 'window', window, 'count', count, 'before', before)
redis.call('PEXPIRE', KEYS[1], 2 * length)
-- As a string: a number would lose its fraction on the way out.
return {allowed, tostring(used)}
