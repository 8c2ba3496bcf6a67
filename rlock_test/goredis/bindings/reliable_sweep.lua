-- Gives up jobs whose workers have not acknowledged them in time. A job goes
-- back to the front of the queue, or to the dead letters after too many tries.
--
-- name: ReliableSweep
-- mode: write
-- KEYS[1] at_work  key   sorted set of job ids by when they are given up
-- KEYS[2] ready    key   list of job ids
-- KEYS[3] attempts key   hash of how often each job was given up
-- KEYS[4] dead     key   list of job ids that nobody tries again
-- ARGV[1] now      time
-- ARGV[2] tries    int   how often a job is tried
-- returns: again int, dead int

local late = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 100)
local again, dead = 0, 0
for _, id in ipairs(late) do
  redis.call('ZREM', KEYS[1], id)
  if redis.call('HINCRBY', KEYS[3], id, 1) < tonumber(ARGV[2]) then
    redis.call('LPUSH', KEYS[2], id)
    again = again + 1
  else
    redis.call('RPUSH', KEYS[4], id)
    redis.call('HDEL', KEYS[3], id)
    dead = dead + 1
  end
end
return {again, dead}
