-- Makes a lock that one holder has a shared one, of which the holder keeps a share, and lets in those
-- at the head of the queue who want a share too. The lock is never free in between. If none of the
-- tokens has the lock, the script changes nothing. A caller that lost the reply may safely send the
-- same call again: it confirms the share, with the later one of two leases, because the caller counts
-- its lease from the call that was answered. The phase has the fence of the holder.
--
-- name: Downgrade
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   holders key        the sorted set of those who share the lock
-- KEYS[3]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[4]   counter key        fence counter of the lock's slot
-- KEYS[5]   grants  channels   what the channels of all processes start with
-- ARGV[1]   token   string     token of the share, which no other has; it says what limit and how many permits
-- ARGV[2]   ttl     duration?  lease of the share; absent: it never expires
-- ARGV[3]   fence   int        fence of the holder; 0: it has none, and the phase gets a new one
-- ARGV[4..] former  string     tokens that may have the whole lock
-- returns: downgraded bool, fence int

-- include: queue/next_fence.lua
-- include: shared/holders.lua
-- include: shared/admit.lua

local lock, holders, queue, counter, grants = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl, fence = ARGV[1], ARGV[2], tonumber(ARGV[3])

local limit, permits = share_of(token)
if not limit then
  return redis.error_reply('ERR the token is not of a share')
end

local now, deadline = milliseconds(), '+inf'
if ttl ~= '' then
  deadline = now + tonumber(ttl)
  if deadline >= 9007199254740992 then
    return redis.error_reply('ERR the lease is too long')
  end
  deadline = string.format('%.0f', deadline)
end

local value = redis.call('GET', lock)
local phase = phase_of(value)
if phase then
  local score = redis.call('ZSCORE', holders, phase .. ' 1 ' .. token)
  if not score or score ~= 'inf' and tonumber(score) <= now then
    return {0, 0}
  end
  if ttl == '' or score ~= 'inf' and tonumber(score) < tonumber(deadline) then
    add(holders, phase, token, tonumber(permits), deadline)
    keep(lock, holders)
  end
  return {1, tonumber(phase)}
end
local had = false
for i = 4, #ARGV do
  had = had or value == ARGV[i]
end
if not had then
  return {0, 0}
end

if fence == 0 then
  fence = next_fence(counter)
  if type(fence) ~= 'number' then
    return fence
  end
end
local new = string.format('%.0f', fence)
local failed = begin(lock, holders, new, limit, token, tonumber(permits), deadline)
if failed then
  return failed
end
admit(lock, holders, queue, grants, new, limit, now, token)
keep(lock, holders)
return {1, fence}
