-- Gives out the next number of the day, such as 20240131-0007 for an invoice.
--
-- name: DailyNumber
-- mode: write
-- KEYS[1] prefix key     what the counters' names begin with, with a {hash tag} in a cluster
-- ARGV[1] day    string  such as 20240131
-- returns: string
-- allow: undeclared-key a counter a day; its name begins with KEYS[1] and is in its slot through the hash tag

local counter = KEYS[1] .. ':' .. ARGV[1]
local n = redis.call('INCR', counter)
if n == 1 then
  redis.call('EXPIRE', counter, 2 * 24 * 60 * 60)
end
return string.format('%s-%04d', ARGV[1], n)
