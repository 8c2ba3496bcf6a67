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
