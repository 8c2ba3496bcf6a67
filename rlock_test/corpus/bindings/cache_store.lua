-- Stores a refreshed value for CacheFetch.
--
-- name: CacheStore
-- mode: write retryable
-- KEYS[1] value       key       hash of the value and until when it is fresh
-- KEYS[2] refresh     key       exists while somebody refreshes the value
-- ARGV[1] content     bytes
-- ARGV[2] fresh_until time
-- ARGV[3] keep        duration  how long it may be served, fresh or not
-- returns: none

redis.call('HSET', KEYS[1], 'value', ARGV[1], 'fresh_until', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('DEL', KEYS[2])
