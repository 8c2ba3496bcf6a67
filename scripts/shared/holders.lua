-- While a lock is shared, its key has the value "rlock:shared <phase> <limit>". The phase is a fence,
-- which no other phase has; the limit is how many permits there are, 0: any number, for readers. A
-- sorted set beside the key has the holders: for each permit a member "<phase> <number> <token>",
-- with the end of its lease by the server's clock, in milliseconds, as its score. Both keys last as
-- long as the latest lease. A member of another phase than the key's is void: after the key was
-- deleted, or had another holder, nobody counts it.
--
-- The token of a shared holder is "rlock:share:<limit>:<permits>:<id>", so that those who pass a
-- lock on know from the queue what a waiter wants.

-- Returns phase and limit of a key's value, nil if the lock is not shared.
local function phase_of(value)
  if not value then
    return nil
  end
  return string.match(value, '^rlock:shared (%d+) (%d+)$')
end

-- Returns limit and permits that a token asks for, nil if it asks for the whole lock.
local function share_of(token)
  return string.match(token, '^rlock:share:(%d+):(%d+):')
end

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Removes the holders whose lease is over. Only these scripts write members of this form, and no
-- other is removed.
local function purge(holders, now)
  for _, member in ipairs(redis.call('ZRANGE', holders, '-inf', string.format('%.0f', now), 'BYSCORE')) do
    if string.match(member, '^%d+ %d+ rlock:share:') then
      redis.call('ZREM', holders, member)
    end
  end
end

-- Reports whether so many permits are free.
local function fits(holders, limit, permits)
  return limit == '0' or redis.call('ZCARD', holders) + permits <= tonumber(limit)
end

-- Adds the permits of a holder, or gives them another lease.
local function add(holders, phase, token, permits, deadline)
  for i = 1, permits do
    redis.call('ZADD', holders, deadline, phase .. ' ' .. i .. ' ' .. token)
  end
end

-- Returns the end of the latest lease as the commands take it, nil if there is no end.
local function latest(holders)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
  if not last[2] or last[2] == 'inf' then
    return nil
  end
  return string.format('%.0f', tonumber(last[2]))
end

-- Has both keys last as long as the latest lease. It writes only if that has changed, because each
-- write is told to all who watch the key.
local function keep(lock, holders)
  local deadline = latest(holders)
  if not deadline then
    redis.call('PERSIST', holders)
    redis.call('PERSIST', lock)
  elseif redis.call('PEXPIRETIME', lock) ~= tonumber(deadline) then
    redis.call('PEXPIREAT', holders, deadline)
    redis.call('PEXPIREAT', lock, deadline)
  end
end

-- Begins a phase with one holder, and returns nil. The members of a former phase are void. If there
-- are others, somebody else uses the name, and begin returns the error reply and changes nothing.
-- The key comes last: until it has the value, nobody counts the members.
local function begin(lock, holders, phase, limit, token, permits, deadline)
  local former = redis.call('ZRANGE', holders, 0, -1)
  for _, member in ipairs(former) do
    if not string.match(member, '^%d+ %d+ rlock:share:') then
      return redis.error_reply('ERR the key that is to have the holders has members that rlock has not written')
    end
  end
  if former[1] then
    redis.call('DEL', holders)
  end
  add(holders, phase, token, permits, deadline)
  local value = 'rlock:shared ' .. phase .. ' ' .. limit
  if deadline == '+inf' then
    redis.call('SET', lock, value)
    return nil
  end
  redis.call('PEXPIREAT', holders, deadline)
  redis.call('SET', lock, value, 'PXAT', deadline)
  return nil
end
