-- Takes the next job to work on it. The job stays in the list of the jobs at
-- work until it is acknowledged; see reliable_ack.lua and reliable_sweep.lua.
--
-- name: ReliableTake
-- mode: write
-- KEYS[1] ready    key        list of job ids
-- KEYS[2] at_work  key        sorted set of job ids by when they are given up
-- KEYS[3] jobs     key        hash of the jobs by id
-- ARGV[1] deadline time       when the job is given up unless it is acknowledged
-- returns: id string?, job json(Job)?

local id = redis.call('LPOP', KEYS[1])
if not id then
  return {false, false}
end
redis.call('ZADD', KEYS[2], ARGV[1], id)
return {id, redis.call('HGET', KEYS[3], id)}
