-- Adds members to a set in one command, and tells how many are new.
--
-- name: TagAll
-- mode: write retryable
-- KEYS[1]   tags    key
-- ARGV[1..] members string  at least one, and at most 7000: unpack gives out not much above that
-- returns: int

return redis.call('SADD', KEYS[1], unpack(ARGV))
