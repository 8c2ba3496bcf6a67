-- Reads who waits for a lock, in the order of the queue: each member, and behind it its score, which is
-- the server's clock in microseconds when it joined. queue/grant.lua says what a member is.
--
-- name: Waiters
-- mode: read
-- KEYS[1] queue key  the queue of the lock: a sorted set of those who wait
-- ARGV[1] last  int  position of the last that is wanted, counted from 0
-- returns: []string

return redis.call('ZRANGE', KEYS[1], 0, ARGV[1], 'WITHSCORES')
