-- Reads all feature flags of a service.
--
-- name: ReadFlags
-- mode: read
-- KEYS[1] flags key  hash of the flags
-- returns: map[string]string

return redis.call('HGETALL', KEYS[1])
