-- Reads one feature flag; nil means that it is not set. It is asked at every
-- request and seldom changes, so it is worth a place in the client-side cache.
--
-- name: ReadFlag
-- mode: read cached
-- KEYS[1] flags key     hash of the flags
-- ARGV[1] flag  string
-- returns: string?

return redis.call('HGET', KEYS[1], ARGV[1])
