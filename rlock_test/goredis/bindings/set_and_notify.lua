-- Sets a value and tells the subscribers if it has changed, in one step: nobody
-- can hear of a value that is not there yet.
--
-- name: SetAndNotify
-- mode: write
-- KEYS[1] value   key
-- ARGV[1] text    string
-- ARGV[2] channel channel
-- returns: changed bool, receivers int

if redis.call('SET', KEYS[1], ARGV[1], 'GET') == ARGV[1] then
  return {0, 0}
end
return {1, redis.call('PUBLISH', ARGV[2], ARGV[1])}
