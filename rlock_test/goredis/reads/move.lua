-- Moves a text, so it has two keys.
--
-- mode: write
-- KEYS[1] from key
-- KEYS[2] to   key
-- returns: ok
return redis.call('RENAME', KEYS[1], KEYS[2])
