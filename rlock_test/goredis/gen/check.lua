-- Reads the token of the lock's holder; nil means that the lock is free. The script reads
-- its one key and nothing else, so a client may cache the reply until the server reports
-- that the key has changed.
--
-- name: Check
-- mode: read cached
-- KEYS[1] lock key  the lock
-- returns: string?

return redis.call('GET', KEYS[1])
