-- Adds an item to a priority queue, or raises the priority of one that is there;
-- it never lowers it. True means that something has changed.
--
-- name: PriorityPush
-- mode: write
-- KEYS[1] queue    key
-- ARGV[1] item     string
-- ARGV[2] priority float   the larger, the earlier
-- returns: bool

return redis.call('ZADD', KEYS[1], 'GT', 'CH', ARGV[2], ARGV[1])
