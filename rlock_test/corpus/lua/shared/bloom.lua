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
