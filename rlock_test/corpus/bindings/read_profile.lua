-- Reads a profile.
--
-- name: ReadProfile
-- mode: read cached
-- KEYS[1] profile key  JSON
-- returns: json(Profile)?

return redis.call('GET', KEYS[1])
