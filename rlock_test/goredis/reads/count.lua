-- Counts calls.
--
-- mode: write retryable
-- KEYS[1] k key
-- returns: int
return redis.call('INCR', KEYS[1])
