-- Gives a share of a lock a new lease, counted from now, if this token or a former one has the
-- share, and removes the shares of others whose lease is over. The reply tells whether the share is
-- extended. The script never takes a share whose lease has ended, and extends nobody else's.
--
-- A share of this token keeps its lease if that ends later than the new one. A share of a former
-- token gets this token and exactly the new lease, as in extend.lua.
--
-- name: ExtendShared
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   holders key        the sorted set of those who share the lock
-- ARGV[1]   token   string     the token that the share has, or is to have from now on
-- ARGV[2]   ttl     duration?  new lease; absent: the share never expires
-- ARGV[3..] former  string     other tokens that may have the share now
-- returns: bool

-- include: shared/holders.lua

local lock, holders = KEYS[1], KEYS[2]
local token, ttl = ARGV[1], ARGV[2]

local phase = phase_of(redis.call('GET', lock))
local _, permits = share_of(token)
if not phase or not permits then
  return 0
end
permits = tonumber(permits)

local now, deadline = milliseconds(), '+inf'
if ttl ~= '' then
  deadline = now + tonumber(ttl)
  if deadline >= 9007199254740992 then
    return redis.error_reply('ERR the lease is too long')
  end
  deadline = string.format('%.0f', deadline)
end

-- A former token is looked for first: a call that shortens the lease must find it.
local found, score = nil, nil
for i = #ARGV, 3, -1 do
  found = found or redis.call('ZSCORE', holders, phase .. ' 1 ' .. ARGV[i]) and ARGV[i]
end
score = redis.call('ZSCORE', holders, phase .. ' 1 ' .. (found or token))
if not score or score ~= 'inf' and tonumber(score) <= now then
  return 0
end

-- PEXPIRE GT 1 changes nothing. It comes first because a server that is out of memory allows it,
-- and allows any command after the first write of a script, so ZADD too.
redis.call('PEXPIRE', lock, 1, 'GT')
purge(holders, now)
if found or ttl == '' or score ~= 'inf' and tonumber(score) < tonumber(deadline) then
  add(holders, phase, token, permits, deadline)
end
-- The former token comes out last: without a member the set would be gone, and a new one has no expiry.
if found and found ~= token then
  for i = 1, permits do
    redis.call('ZREM', holders, phase .. ' ' .. i .. ' ' .. found)
  end
end
keep(lock, holders)
return 1
