-- Writes a value unless a later holder of the lock has written before. The value
-- remembers the largest fence it was written with, so this works wherever the
-- lock lives, and when the lock is long gone.
--
-- name: FencedPut
-- mode: write retryable
-- guard: KEYS[1] fenced by ARGV[2]
-- KEYS[1] entry key     hash of the value and its fence
-- ARGV[1] text  string
-- ARGV[2] fence int     fence of the lock under which it is written
-- returns: ok
-- errors: STALE_FENCE

-- Fences are below 2^53, so tonumber() is exact.
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
if tonumber(ARGV[2]) < seen then
  return redis.error_reply('STALE_FENCE it was written with fence ' .. string.format('%d', seen))
end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'fence', ARGV[2])
return redis.status_reply('OK')
