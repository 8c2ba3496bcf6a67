-- Reserves a range of ids, which the caller gives out without asking again. A
-- range that is lost with its answer leaves a gap, and nothing worse.
--
-- name: IDRange
-- mode: write retryable
-- KEYS[1] sequence key
-- ARGV[1] size     int  ids in the range, at least 1
-- returns: first int, last int

-- INCRBY's answer is exact up to 2^53, as Lua counts in doubles.
local last = redis.call('INCRBY', KEYS[1], ARGV[1])
return {last - ARGV[1] + 1, last}
