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
