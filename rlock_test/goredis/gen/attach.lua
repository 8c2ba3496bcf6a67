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
-- A lock that has shares has the value "rlock:readers <phase>" or "rlock:permits <phase>" in its key. The
-- phase is a fence, which no other phase has. A sorted set beside the key has these members:
--
--   - "<phase>". Its score is the number of permits in use, which is below each end of a lease.
--   - "<phase> <permits> <token>" for each holder of a share. Its score is the end of the lease by the
--     server's clock, in milliseconds.
--
-- If the first member is not the key's phase, the server has lost the set. Then nobody knows the holders, and
-- the scripts grant no share until the key is gone.
--
-- The token of a share is "rlock:share:<limit>:<permits>:<id>". A reader has the limit 0 and one permit, and
-- any number of readers share a lock. A holder of permits names its own limit, and other holders may name
-- others.

-- Returns the limit and the permits that a token asks for, or nil if the token asks for the whole lock.
local function share_of(token)
  return string.match(token, '^rlock:share:(%d+):(%d+):')
end

local function mode_of(limit)
  return limit == '0' and 'readers' or 'permits'
end

-- Makes the key and the set last at least as long as a new lease. The server reports each write of the key to
-- all clients that watch it. So the function sets an end later than needed, and most later leases need no
-- write. The scripts do not count a holder whose own lease is over.
local function keep(lock, holders, ends, lease, now)
  if ends == '+inf' then
    redis.call('PERSIST', holders)
    redis.call('PERSIST', lock)
    return
  end
  -- Both keys have the same expiry, unless another program has changed one of them.
  local left, set = redis.call('PTTL', lock), redis.call('PTTL', holders)
  if left >= 0 and now + left < tonumber(ends) or set >= 0 and now + set < tonumber(ends) then
    local last = string.format('%.0f', now + 2 * tonumber(lease))
    redis.call('PEXPIREAT', holders, last)
    redis.call('PEXPIREAT', lock, last)
  end
end

-- Shortens the expiry of both keys to fit the leases that are left. The longest lease may just have gone.
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

-- Removes the set of a phase that is over. If a share's lease never ended, the set has no expiry. The set
-- would stay for ever after another program has deleted the key.
local function sweep(holders)
  local first = redis.pcall('ZRANGE', holders, 0, 0)
  if first[1] and string.match(first[1], '^%d+$') then
    redis.call('DEL', holders)
  end
end

-- Reads who has a lock, and returns a table with these fields:
--
--   - value: the value of the key, or false if the lock is free
--   - mode and phase: only of a lock that has shares
--   - used: the number of permits in use, or nil if the server has lost the set
--   - soonest: the end of the lease that ends first
--
-- The function removes up to 64 holders whose lease is over. Any others still count. now is the clock in
-- milliseconds.
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

-- Reports whether what a token asks for is free. The limit in the token decides.
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
