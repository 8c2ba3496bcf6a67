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
-- positions tells the bits of an item in a filter of so many bits: two halves of
-- its SHA1, combined as in Kirsch and Mitzenmacher, "Less Hashing, Same
-- Performance". 2^32 times 32 stays far below 2^53, so nothing is rounded.
local function positions(item, bits, hashes)
  local sum = redis.sha1hex(item)
  local a = tonumber(string.sub(sum, 1, 8), 16)
  local b = tonumber(string.sub(sum, 9, 16), 16)
  local list = {}
  for i = 1, hashes do
    list[i] = (a + i * b) % bits
  end
  return list
end

for _, bit in ipairs(positions(ARGV[3], tonumber(ARGV[1]), tonumber(ARGV[2]))) do
  if redis.call('GETBIT', KEYS[1], bit) == 0 then
    return 0
  end
end
return 1
