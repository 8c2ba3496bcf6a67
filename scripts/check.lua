-- Tells the token of a lock's holder; nil means that the lock is free. It reads
-- its one key and nothing else, so that the answer may be cached on the client
-- until the server says that the key has changed.
--
-- name: Check
-- mode: read cached
-- KEYS[1] lock key  the lock
-- returns: string?

return redis.call('GET', KEYS[1])
