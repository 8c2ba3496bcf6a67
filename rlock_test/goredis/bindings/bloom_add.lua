-- Adds items to a Bloom filter and tells for each whether it is new. "New" is
-- certain; "not new" is wrong now and then, more often as the filter fills up.
--
-- name: BloomAdd
-- mode: write
-- KEYS[1]   filter key
-- ARGV[1]   bits   int     size of the filter; always the same for one filter
-- ARGV[2]   hashes int     bits an item; likewise
-- ARGV[3..] items  string
-- returns: []bool

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

local added = {}
for i = 3, #ARGV do
  local new = 0
  for _, bit in ipairs(positions(ARGV[i], tonumber(ARGV[1]), tonumber(ARGV[2]))) do
    if redis.call('SETBIT', KEYS[1], bit, 1) == 0 then
      new = 1
    end
  end
  added[i - 2] = new
end
return added
