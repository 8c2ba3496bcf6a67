-- Appends jobs to the list of a worker, and tells the length of the list.
--
-- name: JobsAppend
-- mode: write
-- KEYS[1]   list key        JSON
-- ARGV[1..] jobs json(Job)  at least one
-- returns: int

return redis.call('RPUSH', KEYS[1], unpack(ARGV))
