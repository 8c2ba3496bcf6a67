-- Gives every lock of a set, or a share of a lock, a new token, if the new token or a former one has each of
-- them. From then on, calls with a former token change nothing. The leases stay as they are, or get exactly
-- the new lease, counted from now, if the token is new to the lock: that is how a lease is made shorter. Of a
-- lock that has the new token already, the lease never gets shorter.
--
-- Otherwise the script changes nothing, and the reply has the position of the first lock that none of these
-- tokens has; 0 means attached. A caller that lost the reply may safely send the same call again.
--
-- name: Attach
-- mode: write retryable
-- KEYS[1..] keys   key        the locks; of a share its lock and the sorted set of those who share it
-- ARGV[1]   token  string     the new token
-- ARGV[2]   keep   bool       whether the leases stay as they are
-- ARGV[3]   ttl    duration?  otherwise the new lease; absent: it never ends
-- ARGV[4..] former string     tokens that may have the locks now
-- returns: position int, remaining duration

-- include: include/holders.lua
-- While a lock is shared, its key has the value "rlock:readers <phase>" or "rlock:permits <phase>". The phase
-- is a fence, which no other phase has. A sorted set beside the key has the holders: for each a member
-- "<phase> <permits> <token>", whose score is the end of its lease by the server's clock, in milliseconds.
-- One more member, "<phase>", has as its score how many permits are in use, which is below every end of a
-- lease. If the first member is not that of the key's phase, the set was lost: nobody knows who shares the
-- lock then, and nobody is let in until the key is gone.
--
-- The token of a share is "rlock:share:<limit>:<permits>:<id>". A limit of 0 is a reader's: any number of
-- them share a lock, each with one permit. The holder of permits has them within the limit that it names
-- itself: others may name another one.

-- Returns limit and permits that a token asks for, nil if it asks for the whole lock.
local function share_of(token)
  return string.match(token, '^rlock:share:(%d+):(%d+):')
end

local function mode_of(limit)
  return limit == '0' and 'readers' or 'permits'
end

-- Has the key and the set last as long as a new lease. They may last longer, so that not every lease that
-- ends later moves their end: each write of the key is told to all who watch it. Nobody counts a holder whose
-- own lease is over.
local function keep(lock, holders, ends, lease, now)
  if ends == '+inf' then
    redis.call('PERSIST', holders)
    redis.call('PERSIST', lock)
    return
  end
  -- Only a stranger gives one of them another life than the other has.
  local left, set = redis.call('PTTL', lock), redis.call('PTTL', holders)
  if left >= 0 and now + left < tonumber(ends) or set >= 0 and now + set < tonumber(ends) then
    local last = string.format('%.0f', now + 2 * tonumber(lease))
    redis.call('PEXPIREAT', holders, last)
    redis.call('PEXPIREAT', lock, last)
  end
end

-- Has both keys end with the leases that are left, after one that may have been the longest is gone.
local function shorten(lock, holders, now)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
  if not last[2] or last[2] == 'inf' then
    return
  end
  local most = 2 * (tonumber(last[2]) - now)
  local left = redis.call('PTTL', lock)
  if left < 0 or left > most then
    redis.call('PEXPIREAT', holders, string.format('%.0f', now + most))
    redis.call('PEXPIREAT', lock, string.format('%.0f', now + most))
  end
end

-- Removes the set of a phase that is over. That of a share without an end has no expiry, so it would stay for
-- ever after a stranger has deleted the key.
local function sweep(holders)
  local first = redis.pcall('ZRANGE', holders, 0, 0)
  if first[1] and string.match(first[1], '^%d+$') then
    redis.call('DEL', holders)
  end
end

-- Reads who has a lock. In the table, value is that of the key, false if the lock is free; mode and phase are
-- those of a shared lock, used is how many permits are in use, nil if the set was lost, and soonest is the
-- end of the lease that ends first. Holders whose lease is over are removed, 64 at most: those that remain
-- still count. now is the clock in milliseconds.
local function look(lock, holders, now)
  local s = {value = redis.call('GET', lock)}
  if not s.value then
    return s
  end
  local mode, phase = string.match(s.value, '^rlock:(%a+) (%d+)$')
  if mode ~= 'readers' and mode ~= 'permits' then
    return s
  end
  s.mode, s.phase = mode, phase
  local first = redis.call('ZRANGE', holders, 0, 1, 'WITHSCORES')
  if first[1] ~= s.phase then
    return s
  end
  s.used, s.soonest = tonumber(first[2]), first[4]
  if s.soonest and (s.soonest == 'inf' or tonumber(s.soonest) > now) then
    return s
  end
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
  if last[2] ~= 'inf' and tonumber(last[2]) <= now then
    redis.call('DEL', holders)
    redis.call('DEL', lock)
    return {value = false}
  end
  local most = string.format('%.0f', now)
  for _, member in ipairs(redis.call('ZRANGE', holders, 100000000000, most, 'BYSCORE', 'LIMIT', 0, 64)) do
    redis.call('ZREM', holders, member)
    s.used = s.used - (tonumber(string.match(member, '^%d+ (%d+) ')) or 0)
  end
  redis.call('ZADD', holders, string.format('%.0f', s.used), s.phase)
  s.soonest = redis.call('ZRANGE', holders, 1, 1, 'WITHSCORES')[2]
  return s
end

-- Reports whether what a token asks for is free: by its own limit.
local function fits(s, limit, permits)
  if not limit then
    return not s.value
  end
  if not s.value then
    return true
  end
  return s.mode == mode_of(limit) and s.used ~= nil and (limit == '0' or s.used + permits <= tonumber(limit))
end

local token, keeps, ttl = ARGV[1], ARGV[2] == '1', ARGV[3]

if share_of(token) then
  local lock, holders = KEYS[1], KEYS[2]
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local s = look(lock, holders, now)
  local _, permits = share_of(token)
  local before = (s.phase or '') .. ' ' .. permits .. ' '
  -- A former token is looked for first: a call that shortens the lease must find it.
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
  -- PEXPIRE GT 1 changes nothing. It comes first because a server that is out of memory allows it, and
  -- allows any command after the first write of a script, so ZADD too.
  redis.call('PEXPIRE', lock, 1, 'GT')
  if not keeps then
    keep(lock, holders, ends, ttl, now)
  end
  if found and found ~= token then
    local added = redis.call('ZADD', holders, ends, before .. token)
    redis.call('ZREM', holders, before .. found)
    if added == 0 and s.used then -- both had their permits, because a call of the former token was late
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

-- All reads come before the first write, so that the script attaches the whole set or nothing. remaining is
-- what is left of the shortest lease; -1 ms: no lock expires.
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
  -- PEXPIRE GT 1 changes nothing. It comes first for the reason above.
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
