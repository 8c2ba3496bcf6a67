-- Takes up to so many messages from the front of a queue; none is an empty list.
--
-- name: QueuePop
-- mode: write
-- KEYS[1] queue key
-- ARGV[1] most  int  messages to take, at least 1
-- returns: []bytes

-- LPOP answers nil for a queue that is not there.
return redis.call('LPOP', KEYS[1], ARGV[1]) or {}
