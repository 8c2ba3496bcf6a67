-- Writes a value while a lock is held. The lock's key is looked at in the same
-- step as the value is written, so a holder that has lost the lock writes nothing.
-- In a cluster, lock and value must share a {hash tag}.
--
-- name: GuardedPut
-- mode: write
-- guard: KEYS[1] held by ARGV[1]
-- KEYS[1] lock  key
-- KEYS[2] value key
-- ARGV[1] token string
-- ARGV[2] text  string
-- returns: ok
-- errors: NOT_HELD

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOT_HELD the lock is not held by this token')
end
return redis.call('SET', KEYS[2], ARGV[2])
