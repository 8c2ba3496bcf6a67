-- Writes a copy of what readers of a lock see, as long as they share it: no writer has had the lock
-- since the caller's share was granted. The caller passes the Readers of its lock, and one who has the whole
-- lock is refused. In a cluster, lock and copy must share a {hash tag}.
--
-- name: SharedPut
-- mode: write
-- guard: KEYS[1] held by ARGV[1]
-- KEYS[1] lock  key
-- KEYS[2] copy  key
-- ARGV[1] token string
-- ARGV[2] text  string
-- returns: ok
-- errors: NOT_SHARED

if string.sub(ARGV[1], 1, 14) ~= 'rlock:readers ' then
  return redis.error_reply('NOT_SHARED the caller is no reader')
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOT_SHARED the readers have gone')
end
return redis.call('SET', KEYS[2], ARGV[2])
