-- Reads a cached value such that only one caller makes it anew. When the value
-- is missing or past its best time, the first one to ask is told to refresh it;
-- the others get the old value, or nothing, and ask again later.
--
-- name: CacheFetch
-- mode: write
-- KEYS[1] value   key       hash of the value and until when it is fresh
-- KEYS[2] refresh key       exists while somebody refreshes the value
-- ARGV[1] now     time
-- ARGV[2] lease   duration  another caller may refresh when this one has not by then
-- returns: value bytes?, refresh bool

local entry = redis.call('HMGET', KEYS[1], 'value', 'fresh_until')
if entry[1] and tonumber(entry[2]) > tonumber(ARGV[1]) then
  return {entry[1], false}
end
-- SET NX answers OK, or false where the key exists.
return {entry[1], redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[2])}
