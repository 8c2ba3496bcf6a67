-- Reads who has each of many locks, all at the same instant: the value of the key (nil: the lock is free) and
-- the remaining time of its lease (-1 ms: it never expires, -2 ms: the lock is free). The value is the
-- holder's token, or says that several share the lock.
--
-- If the call names the other keys of one lock, the reply also has those who share it, in the order in which
-- their leases end, each as "<phase> <permits> <token>", with what is left of its lease (-1 ms: it never
-- ends); and the tokens that wait for it, in the order of the queue, each with the server's clock in
-- microseconds when it joined.
--
-- name: Inspect
-- mode: read
-- KEYS[1..] keys    key  the locks; or one lock, the sorted set of those who share it, and its queue
-- ARGV[1]   waiters int  how many of those who wait are wanted; -1: the keys are all locks
-- returns: values []string?, remaining []duration, members []string, left []duration, waiting []string

local values, remaining, members, left, waiting = {}, {}, {}, {}, {}
local count, wanted = #KEYS, tonumber(ARGV[1])
if wanted >= 0 then
  count = 1
end
for i = 1, count do
  -- GET answers false, not nil, for a free lock, so the lock keeps its place in the list.
  values[i] = redis.call('GET', KEYS[i])
  remaining[i] = redis.call('PTTL', KEYS[i])
end
if wanted < 0 then
  return {values, remaining, members, left, waiting}
end

local phase = values[1] and string.match(values[1], '^rlock:%a+ (%d+)$')
if phase then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local all = redis.call('ZRANGE', KEYS[2], 100000000000, '+inf', 'BYSCORE', 'WITHSCORES')
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, #phase + 1) ~= phase .. ' ' then
      break
    end
    if all[i + 1] == 'inf' then
      members[#members + 1] = all[i]
      left[#left + 1] = -1
    elseif tonumber(all[i + 1]) > now then
      members[#members + 1] = all[i]
      left[#left + 1] = tonumber(all[i + 1]) - now
    end
  end
end
if wanted > 0 then
  waiting = redis.call('ZRANGE', KEYS[3], 0, wanted - 1, 'WITHSCORES')
end
return {values, remaining, members, left, waiting}
