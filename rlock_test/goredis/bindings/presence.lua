-- Tells for several users since when they are online and for how long that still
-- counts without another heartbeat.
--
-- name: Presence
-- mode: read
-- KEYS[1..] users key  time of the first heartbeat; the key expires without the next one
-- returns: since []time?, left []duration?

local since, left = {}, {}
for i, user in ipairs(KEYS) do
  since[i] = redis.call('GET', user)
  left[i] = since[i] and redis.call('PTTL', user)
end
return {since, left}
