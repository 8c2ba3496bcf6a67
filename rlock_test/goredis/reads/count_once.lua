-- Counts calls that must not be repeated.
--
-- mode: write
-- KEYS[1] k key
-- returns: int
return redis.call('INCR', KEYS[1])
