-- Tells a player's rank and the rows around it, best first. A player who is not
-- on the board has no rank and gets no rows.
--
-- name: LeaderboardAround
-- mode: read
-- KEYS[1] board  key
-- ARGV[1] player string
-- ARGV[2] radius int     rows above and below
-- returns: rank int?, rows [][]string

local rank = redis.call('ZREVRANK', KEYS[1], ARGV[1])
if not rank then
  return {false, {}}
end
local first = math.max(0, rank - ARGV[2])
local flat = redis.call('ZRANGE', KEYS[1], first, rank + ARGV[2], 'REV', 'WITHSCORES')
local rows = {}
for i = 1, #flat, 2 do
  rows[#rows + 1] = {flat[i], flat[i + 1]}
end
return {rank + 1, rows}
