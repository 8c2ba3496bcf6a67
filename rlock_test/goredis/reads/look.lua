-- Reads a text.
--
-- mode: read
-- KEYS[1] k key
-- returns: string?
return redis.call('GET', KEYS[1])
