-- Removes entries of a cache that have expired, and then the ones that expire
-- next until at most so many are left. The removed names are the answer.
--
-- name: CacheEvict
-- mode: write
-- KEYS[1] expiry  key   sorted set of names by when they expire
-- KEYS[2] entries key   hash of the entries by name
-- ARGV[1] now     time
-- ARGV[2] most    int   entries that may stay
-- returns: []string

local gone = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE')
local excess = redis.call('ZCARD', KEYS[1]) - #gone - ARGV[2]
if excess > 0 then
  -- Expired ones have the lowest scores, so the next to go follow them.
  gone = redis.call('ZRANGE', KEYS[1], 0, #gone + excess - 1)
end
for _, name in ipairs(gone) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
return gone
