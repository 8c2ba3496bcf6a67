-- Admits an address unless it is banned, and tells until when it is. The
-- addresses of the last visitors are remembered, the latest first.
--
-- name: AddressAdmit
-- mode: write
-- KEYS[1] bans    key                     hash of the end of each ban by address, in JSON
-- KEYS[2] recent  key                     list of addresses, in JSON
-- ARGV[1] address json(net/netip.Addr)
-- ARGV[2] now     time
-- returns: banned_until time?, recent []json(net/netip.Addr)

local ends = redis.call('HGET', KEYS[1], ARGV[1])
if ends and tonumber(ends) > tonumber(ARGV[2]) then
  return {ends, {}}
end
redis.call('LPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], 0, 9)
return {false, redis.call('LRANGE', KEYS[2], 0, -1)}
