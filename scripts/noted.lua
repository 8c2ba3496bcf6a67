-- Tells what the holder with this token has written beside its lock; nil means
-- nothing.
--
-- name: Noted
-- mode: read
-- KEYS[1] note  key     the lock's note
-- ARGV[1] token string  the holder's token
-- returns: string?

return redis.call('HGET', KEYS[1], ARGV[1])
