-- Gives each lock of a set, or one share of a lock, a new token, if the new token or a former token has it.
-- From then on, calls with a former token change nothing. The leases stay as they are, or each lock gets the
-- new lease, counted from now. A lock that has the new token already never gets a shorter lease.
--
-- On success the position is 0, and remaining is the rest of the shortest lease, or -1 ms if no lease ends.
-- Otherwise the script changes nothing, and the position is that of the first lock that none of the tokens
-- has. A caller that lost the reply may safely send the same call again.
--
-- name: Attach
-- mode: write retryable
-- KEYS[1..] keys   key        the locks; for a share: its lock, then the sorted set of the holders of shares
-- ARGV[1]   token  string     the new token
-- ARGV[2]   keep   bool       whether the leases stay as they are
-- ARGV[3]   ttl    duration?  the new lease, unless keep is set; absent: the lease never ends
-- ARGV[4..] former string     tokens that may have the locks now
-- returns: position int, remaining duration

-- include: include/holders.lua

local token, keeps, ttl = ARGV[1], ARGV[2] == '1', ARGV[3]

if share_of(token) then
  local lock, holders = KEYS[1], KEYS[2]
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local s = look(lock, holders, now)
  local _, permits = share_of(token)
  local before = (s.phase or '') .. ' ' .. permits .. ' '
  -- The script looks for a former token first, because a call that shortens the lease must find it.
  local found
  for i = #ARGV, 4, -1 do
    if not found and s.phase and redis.call('ZSCORE', holders, before .. ARGV[i]) then
      found = ARGV[i]
    end
  end
  local score = s.phase and redis.call('ZSCORE', holders, before .. (found or token))
  if not score or score ~= 'inf' and tonumber(score) <= now then
    return {1, 0}
  end
  local ends = score
  if not keeps then
    ends = '+inf'
    if ttl ~= '' then
      if now + ttl >= 4503599627370496 then
        return redis.error_reply('ERR the lease is too long')
      end
      ends = string.format('%.0f', now + ttl)
    end
  end
  -- PEXPIRE GT 1 changes nothing. It comes first because a server that is out of memory allows PEXPIRE.
  -- After the first write of a script, that server allows every command, and the script needs ZADD.
  redis.call('PEXPIRE', lock, 1, 'GT')
  if not keeps then
    keep(lock, holders, ends, ttl, now)
  end
  if found and found ~= token then
    local added = redis.call('ZADD', holders, ends, before .. token)
    redis.call('ZREM', holders, before .. found)
    if added == 0 and s.used then -- both tokens had permits: a call of the former was late
      redis.call('ZADD', holders, string.format('%.0f', s.used - permits), s.phase)
    end
  elseif not keeps then
    redis.call('ZADD', holders, 'XX', 'GT', ends, before .. token)
  end
  if not keeps then
    shorten(lock, holders, now)
  end
  local left = redis.call('ZSCORE', holders, before .. token)
  if left == 'inf' then
    return {0, -1}
  end
  return {0, left - now}
end

local accepted = {[token] = true}
for i = 4, #ARGV do
  accepted[ARGV[i]] = true
end

-- All reads come before the first write, so the script changes the whole set or nothing. remaining is the
-- rest of the shortest lease; -1 ms: no lease ends.
local holders, remaining = {}, -1
for i, lock in ipairs(KEYS) do
  local holder = redis.call('GET', lock)
  if not accepted[holder] then
    return {i, 0}
  end
  holders[i] = holder
  local lease = redis.call('PTTL', lock)
  if lease >= 0 and (remaining < 0 or lease < remaining) then
    remaining = lease
  end
end

for i, lock in ipairs(KEYS) do
  -- PEXPIRE GT 1 changes nothing. It comes first for the same reason as above.
  redis.call('PEXPIRE', lock, 1, 'GT')
  if keeps and holders[i] ~= token then
    redis.call('SET', lock, token, 'KEEPTTL')
  elseif not keeps and holders[i] ~= token and ttl == '' then
    redis.call('SET', lock, token)
  elseif not keeps and holders[i] ~= token then
    redis.call('SET', lock, token, 'PX', ttl)
  elseif not keeps and ttl == '' then
    redis.call('PERSIST', lock)
  elseif not keeps then
    redis.call('PEXPIRE', lock, ttl, 'GT')
  end
end
if not keeps then
  remaining = tonumber(ttl) or -1
end
return {0, remaining}
