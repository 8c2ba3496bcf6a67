-- Reads the token of the lock's holder. If the lock is free, the reply is nil.
--
-- The script reads its one key and nothing else. So a client may cache the reply until the server reports
-- a change of the key.
--
-- name: Check
-- mode: read cached
-- KEYS[1] lock key  the lock
-- returns: string?

return redis.call('GET', KEYS[1])
