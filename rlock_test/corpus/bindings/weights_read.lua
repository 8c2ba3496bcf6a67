-- Reads all weights of a set, as the numbers that the server has.
--
-- name: WeightsRead
-- mode: read
-- KEYS[1] weights key
-- ARGV[1] one     string  a member; nil means that it has no weight
-- returns: one float?, all map[string]float

-- Version 3 of the protocol has pairs of a member and a double, with its fraction.
redis.setresp(3)
local all = {map = {}}
for _, pair in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do
  all.map[pair[1]] = pair[2]
end
local one = redis.call('ZSCORE', KEYS[1], ARGV[1])
-- Back to version 2, in which false is an absent value and not a no.
redis.setresp(2)
return {one or false, all}
