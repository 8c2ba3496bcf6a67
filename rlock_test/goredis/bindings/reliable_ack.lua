-- Ends a job that was taken. False means that it had been given up: another
-- worker may be at it, or has done it.
--
-- name: ReliableAck
-- mode: write
-- KEYS[1] at_work  key     sorted set of job ids by when they are given up
-- KEYS[2] jobs     key     hash of the jobs by id
-- KEYS[3] attempts key     hash of how often each job was given up
-- ARGV[1] id       string
-- returns: bool

if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return false
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return true
