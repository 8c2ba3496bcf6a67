-- Changes how many permits there are of a shared lock. Those who have permits keep them, also if
-- there are more than the new limit; nobody gets one then until enough are given up. Those at the
-- head of the queue who ask for the new limit, and for what is free, get it. The reply is the former
-- limit: 0 means that readers share the lock, whose number has no limit, and -1 that nobody shares
-- it. The script changes nothing then.
--
-- name: ChangeLimit
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   holders key        the sorted set of those who share the lock
-- KEYS[3]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[4]   grants  channels   what the channels of all processes start with
-- ARGV[1]   limit   int        how many permits there are from now on
-- returns: int

-- include: shared/holders.lua
-- include: shared/admit.lua

local lock, holders, queue, grants, limit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
if not tonumber(limit) or tonumber(limit) < 1 then
  return redis.error_reply('ERR the limit is not at least 1')
end

local phase, former = phase_of(redis.call('GET', lock))
if not phase then
  return -1
end
if former == '0' then
  return 0
end
local now = milliseconds()
purge(holders, now)
if redis.call('ZCARD', holders) == 0 then
  return -1 -- the next call about the lock frees it
end
if former ~= limit then
  redis.call('SET', lock, 'rlock:shared ' .. phase .. ' ' .. limit, 'KEEPTTL')
end
admit(lock, holders, queue, grants, phase, limit, now, '')
keep(lock, holders)
return tonumber(former) or 0
