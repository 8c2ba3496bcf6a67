-- Adds a measurement to a running mean and tells the mean, the least and the
-- largest value so far (Welford's method, which does not drift).
--
-- name: MeanAdd
-- mode: write
-- KEYS[1] series key    hash of the count, the mean and the extremes
-- ARGV[1] value  float
-- returns: count int, mean float, least float, most float

local value = tonumber(ARGV[1])
local state = redis.call('HMGET', KEYS[1], 'mean', 'least', 'most')
local count = redis.call('HINCRBY', KEYS[1], 'count', 1)
local mean = tonumber(state[1] or 0)
mean = mean + (value - mean) / count
local least = math.min(tonumber(state[2] or value), value)
local most = math.max(tonumber(state[3] or value), value)

-- %.17g keeps every digit of a double; tostring() would keep fourteen.
local function exact(x)
  return string.format('%.17g', x)
end
redis.call('HSET', KEYS[1], 'mean', exact(mean), 'least', exact(least), 'most', exact(most))
return {count, exact(mean), exact(least), exact(most)}
