-- Counts one request of a client in the current window and tells whether it is
-- within the limit. The window starts with its first request and not at a full
-- minute, so that not all clients start anew at the same instant.
--
-- name: FixedWindow
-- mode: write
-- KEYS[1] window key       one counter per client
-- ARGV[1] limit  int       requests a window
-- ARGV[2] length duration  length of the window
-- returns: allowed bool, remaining int, reset duration

local limit = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {used <= limit, math.max(0, limit - used), redis.call('PTTL', KEYS[1])}
