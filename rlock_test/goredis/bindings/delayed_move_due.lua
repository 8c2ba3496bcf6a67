-- Moves jobs that are due to the queue of ready jobs, the longest due first, and
-- tells their ids.
--
-- name: DelayedMoveDue
-- mode: write
-- KEYS[1] due   key   sorted set of job ids by the time they are due
-- KEYS[2] ready key   list of job ids
-- ARGV[1] now   time
-- ARGV[2] most  int   jobs to move in one go; a large backlog must not block the server
-- returns: []string

local rcall = redis.call
local ids = rcall('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
if #ids > 0 then
  rcall('ZREM', KEYS[1], unpack(ids))
  rcall('RPUSH', KEYS[2], unpack(ids))
end
return ids
