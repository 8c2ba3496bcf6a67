-- Reads who has each of many locks, all at the same instant.
--
-- For each lock the reply has the value of the key and the rest of the lease:
--
--   - The value is the holder's token, or it says that the lock has shares. It is nil if the lock
--     is free.
--   - The rest of the lease is -1 ms if the lease never ends, and -2 ms if the lock is free.
--
-- The call may name one lock with its other keys. The reply then also has two lists:
--
--   - The shares, each as "<phase> <permits> <token>" with the rest of its lease. They stand in the
--     order in which their leases end. The rest is -1 ms if the lease never ends.
--   - The tokens of the queue, in its order. Behind each token stands the server's clock in
--     microseconds at the time when the token joined.
--
-- name: Inspect
-- mode: read
-- KEYS[1..] keys    key  the locks; or one lock, the sorted set of its holders of shares, and its queue
-- ARGV[1]   waiters int  how many waiters the reply may have; -1: all keys are locks
-- returns: values []string?, remaining []duration, members []string, left []duration, waiting []string

local values, remaining, members, left, waiting = {}, {}, {}, {}, {}
local count, wanted = #KEYS, tonumber(ARGV[1])
if wanted >= 0 then
  count = 1
end
for i = 1, count do
  -- For a free lock GET replies false, not nil, so the list has no gap.
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
