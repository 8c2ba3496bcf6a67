-- Replaces a value if it is still the one that the caller has read. The answer
-- has the present value, for another try; nil means that there is none.
--
-- name: SwapIf
-- mode: write
-- KEYS[1] value  key
-- ARGV[1] before bytes
-- ARGV[2] after  bytes
-- returns: swapped bool, present bytes?

local present = redis.call('GET', KEYS[1])
if present ~= ARGV[1] then
  return {0, present}
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return {1, ARGV[2]}
