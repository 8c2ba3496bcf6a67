-- Stores a text.
--
-- mode: write
-- KEYS[1] k key
-- ARGV[1] v string
-- returns: ok
return redis.call('SET', KEYS[1], ARGV[1])
