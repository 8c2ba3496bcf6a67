-- Reads who has a lock, and if it is shared, who shares it: the value of the key (nil: the lock is
-- free), the remaining time of the lock (-1 ms: it never expires, -2 ms: it is free), and the members
-- of the present phase whose lease is not over, one for each permit, in the order in which the leases
-- end, with what is left of each (-1 ms: it never ends). A member is "<phase> <number> <token>".
--
-- name: InspectShared
-- mode: read
-- KEYS[1] lock    key  the lock
-- KEYS[2] holders key  the sorted set of those who share the lock
-- returns: holder string?, remaining duration, members []string, left []duration

-- include: shared/holders.lua

local value = redis.call('GET', KEYS[1])
local remaining = redis.call('PTTL', KEYS[1])
local members, left = {}, {}
local phase = phase_of(value)
if phase then
  local now = milliseconds()
  local all = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, #phase + 1) == phase .. ' ' then
      if all[i + 1] == 'inf' then
        members[#members + 1] = all[i]
        left[#left + 1] = -1
      elseif tonumber(all[i + 1]) > now then
        members[#members + 1] = all[i]
        left[#left + 1] = tonumber(all[i + 1]) - now
      end
    end
  end
end
return {value, remaining, members, left}
