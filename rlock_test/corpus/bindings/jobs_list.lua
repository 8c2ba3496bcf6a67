-- Reads all jobs by their ids.
--
-- name: JobsList
-- mode: read
-- KEYS[1] jobs key  hash of the jobs by id, as DelayedSchedule keeps them
-- returns: map[string]json(Job)

return redis.call('HGETALL', KEYS[1])
