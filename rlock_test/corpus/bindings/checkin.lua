-- Marks a user as present on a day of the year and counts the days in a row up
-- to that one.
--
-- name: Checkin
-- mode: write
-- KEYS[1] year key  a bit a day
-- ARGV[1] day  int  0 to 365
-- returns: first bool, streak int

local day = tonumber(ARGV[1])
local before = redis.call('SETBIT', KEYS[1], day, 1)
local streak = 0
while day >= 0 and redis.call('GETBIT', KEYS[1], day) == 1 do
  streak = streak + 1
  day = day - 1
end
return {1 - before, streak}
