-- Writes a copy of what readers of a lock see, as long as they share it: no writer has had the lock
-- since the caller's share was granted. In a cluster, lock and copy must share a {hash tag}.
--
-- name: SharedPut
-- mode: write
-- guard: KEYS[1] shared by ARGV[1]
-- KEYS[1] lock  key
-- KEYS[2] copy  key
-- ARGV[1] phase string
-- ARGV[2] text  string
-- returns: ok
-- errors: NOT_SHARED

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOT_SHARED the readers have gone')
end
return redis.call('SET', KEYS[2], ARGV[2])
