-- Counts the requests that a backend is working on, and refuses one too many.
-- The caller that entered must leave; the expiry of the whole counter mends the
-- count after a crash, once the backend has been idle for that long.
--
-- name: InFlight
-- mode: write
-- KEYS[1] count  key        requests at work
-- ARGV[1] enter  bool       true: one more; false: one less
-- ARGV[2] limit  int        most at the same time
-- ARGV[3] forget duration?  idle time after which the count starts anew; absent: never
-- returns: ok bool, count int

local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if ARGV[1] == '1' then
  if count >= tonumber(ARGV[2]) then
    return {0, count}
  end
  count = redis.call('INCR', KEYS[1])
elseif count > 0 then
  count = redis.call('DECR', KEYS[1])
else
  return {0, 0} -- leaving twice must not make room that is not there
end
if ARGV[3] ~= '' then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {1, count}
