-- Gives permits back; those that are not held are left out of the count.
--
-- name: SemaphoreRelease
-- mode: write retryable
-- KEYS[1]   permits key     sorted set of holders by the end of their lease
-- ARGV[1..] holders string  at least one
-- returns: int

return redis.call('ZREM', KEYS[1], unpack(ARGV))
