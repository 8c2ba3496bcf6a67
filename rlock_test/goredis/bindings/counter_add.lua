-- Adds to a counter that is forgotten some time after it was started. Adding
-- later does not prolong it.
--
-- name: CounterAdd
-- mode: write
-- KEYS[1] counter key
-- ARGV[1] by      int
-- ARGV[2] keep    duration?  absent: for ever
-- returns: int

local total = redis.call('INCRBY', KEYS[1], ARGV[1])
if ARGV[2] ~= '' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2], 'NX')
end
return total
