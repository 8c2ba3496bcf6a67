-- Counts a visitor in the current bucket and estimates how many different ones
-- all the buckets have seen; a sliding window of buckets is a sliding count.
--
-- name: UniqueVisitors
-- mode: write retryable
-- KEYS[1]   current key       the bucket of now
-- KEYS[2..] earlier key       the buckets that the window still covers
-- ARGV[1]   visitor string
-- ARGV[2]   keep    duration  how long a bucket is needed
-- returns: int

redis.call('PFADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('PFCOUNT', unpack(KEYS))
