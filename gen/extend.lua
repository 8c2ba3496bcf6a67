-- Extends many locks, or one share of a lock. Each lock gets a new lease, counted from now. A lock gets
-- nothing if its token does not have the lock.
--
-- The reply has the positions of the locks that their tokens do not have. These locks stay as they are. If
-- the call has one token for all locks, the locks are a set: the script extends all of them or none. The
-- script never takes a lock whose lease has ended.
--
-- A lock keeps its lease if that lease ends later than the new lease. So calls may overlap, arrive late or
-- arrive twice. To shorten a lease, the caller changes the token with Attach.
--
-- name: Extend
-- mode: write retryable
-- KEYS[1..] keys   key        the locks; for a share: its lock, then the sorted set of the holders
--     of shares
-- ARGV[1]   ttl    duration?  the new lease; absent: the lease never ends
-- ARGV[2..] tokens string     the token of each lock, or one token for all
-- returns: []int

local ttl, lost = ARGV[1], {}
if #KEYS == 1 then
  if redis.call('GET', KEYS[1]) ~= ARGV[2] then
    lost[1] = 1
  elseif ttl == '' then
    redis.call('PERSIST', KEYS[1])
  else
    redis.call('PEXPIRE', KEYS[1], ttl, 'GT')
  end
  return lost
end
if string.sub(ARGV[2] or '', 1, 12) ~= 'rlock:share:' then
  -- All reads come before the first write. MGET replies nil for a key of another type. GET would fail there,
  -- and the other locks would get no lease. unpack() fails at about eight thousand values.
  local values = {}
  for first = 1, #KEYS, 1000 do
    for _, value in ipairs(redis.call('MGET', unpack(KEYS, first, math.min(first + 999, #KEYS)))) do
      values[#values + 1] = value
    end
  end
  for i = 1, #KEYS do
    if values[i] ~= (ARGV[i + 1] or ARGV[2]) then
      lost[#lost + 1] = i
      if not values[i] and #ARGV == 2 then
        redis.call('GET', KEYS[i]) -- fails if the key of a set is of another type
      end
    end
  end
  if #lost > 0 and #ARGV == 2 then
    return lost
  end
  for i, lock in ipairs(KEYS) do
    local held = values[i] == (ARGV[i + 1] or ARGV[2])
    if held and ttl == '' then
      redis.call('PERSIST', lock)
    elseif held then
      redis.call('PEXPIRE', lock, ttl, 'GT')
    end
  end
  return lost
end

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

local lock, holders, token = KEYS[1], KEYS[2], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = '+inf'
if ttl ~= '' then
  if now + ttl >= 4503599627370496 then
    return redis.error_reply('ERR the lease is too long')
  end
  ends = string.format('%.0f', now + ttl)
end
local s = look(lock, holders, now)
local _, permits = share_of(token)
local member = (s.phase or '') .. ' ' .. (permits or '') .. ' ' .. token
local score = s.phase and redis.call('ZSCORE', holders, member)
if not score or score ~= 'inf' and tonumber(score) <= now then
  return {1}
end
redis.call('PEXPIRE', lock, 1, 'GT') -- no change; after a first write, a full server refuses nothing
keep(lock, holders, ends, ttl, now) -- first: the key must outlast the lease if ZADD fails
redis.call('ZADD', holders, 'XX', 'GT', ends, member)
return lost
