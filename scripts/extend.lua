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
