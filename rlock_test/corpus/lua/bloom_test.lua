-- Tells whether an item may be in a Bloom filter. "No" is certain.
--
-- name: BloomTest
-- mode: read
-- KEYS[1] filter key
-- ARGV[1] bits   int     as in BloomAdd
-- ARGV[2] hashes int     as in BloomAdd
-- ARGV[3] item   string
-- returns: bool

-- include: shared/bloom.lua

for _, bit in ipairs(positions(ARGV[3], tonumber(ARGV[1]), tonumber(ARGV[2]))) do
  if redis.call('GETBIT', KEYS[1], bit) == 0 then
    return 0
  end
end
return 1
