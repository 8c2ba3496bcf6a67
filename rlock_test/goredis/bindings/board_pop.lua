-- Takes the worst off a leaderboard, if there is anybody, and tells who stays.
--
-- name: BoardPop
-- mode: write
-- KEYS[1] board key
-- returns: (member string, score float, others ([]string)?)?

local popped = redis.call('ZPOPMIN', KEYS[1])
if #popped == 0 then
  return false
end
local others = redis.call('ZRANGE', KEYS[1], 0, -1)
if #others == 0 then
  return {popped[1], popped[2], false}
end
return {popped[1], popped[2], others}
