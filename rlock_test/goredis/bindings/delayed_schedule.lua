-- Files a job to be run later. A job that is filed twice is due at its latest
-- time, with its latest content.
--
-- name: DelayedSchedule
-- mode: write retryable
-- KEYS[1] due  key        sorted set of job ids by the time they are due
-- KEYS[2] jobs key        hash of the jobs by id
-- ARGV[1] id   string
-- ARGV[2] job  json(Job)
-- ARGV[3] at   time?      absent: at once
-- returns: none

local at = ARGV[3]
if at == '' then
  at = '0'
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[1], at, ARGV[1])
