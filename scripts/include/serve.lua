-- include: fence.lua
-- include: holders.lua

-- The queue of a lock is a sorted set of tokens. The score of a token is the server's clock in microseconds
-- at the time when the token joined. A hash beside the queue has "<heard> <beat> <lease> <process>" for each
-- token:
--
--   - <heard> is the clock at the last call of the token, in milliseconds.
--   - <beat> is how long the token may be silent after it, in milliseconds. An odd number says that the
--     server has asked the token for a heartbeat, and that the heartbeat has not come yet.
--   - <lease> is the lease that the token asks for, in milliseconds. If the token asks for a lease without an
--     end, this lease is ten seconds, so that a dead process does not get a lock for ever. The waiter makes
--     the lease endless when it knows of the grant.
--   - <process> is the process that the server tells of a grant. A waiter that the server cannot tell has
--     no process, and finds its grant by a heartbeat.
--
-- Both keys end half a minute after the last join or heartbeat. So what dead processes leave behind goes
-- away.

-- Removes the hash of a queue, if another program has deleted the queue. Otherwise the fields of the hash
-- would stay: no script removes them one by one, and each token that joins prolongs the hash. HDEL fails if
-- the key is no hash. Such a key is not rlock's, so the function leaves it.
local function forget(waiters, token)
  redis.call('HDEL', waiters, token)
  redis.call('DEL', waiters)
end

-- Takes a token out of the queue.
local function leave(queue, waiters, token)
  redis.pcall('ZREM', queue, token)
  if redis.pcall('EXISTS', queue) == 0 then
    pcall(forget, waiters, token)
  else
    redis.pcall('HDEL', waiters, token)
  end
end

-- Asks the first 200 waiters, and up to 50 waiters behind them, for a heartbeat at once. A waiter that was
-- silent for two seconds counts as dead after two more.
--
-- The script asks all of them together as soon as the first waiter has been silent for two seconds. It does
-- not wait until that waiter counts as dead. The reason: without a question, each waiter may be silent for
-- half a second longer than the waiter before it. With one question to all, 200 dead processes cost the
-- others one wait, and not one wait each.
--
-- The script asks the 50 because all of the 200 may be dead. A live waiter must then call, because only a
-- call removes the dead ones. The script also asks waiters whose heartbeat came lately, because their next
-- pause may be 15 seconds.
local function ask_front(queue, waiters, grants, now)
  local tokens = redis.call('ZRANGE', queue, 0, 199)
  local last = redis.call('ZCARD', queue) - 1
  for rank = last, 200, -math.max(math.ceil((last - 199) / 50), 1) do
    tokens[#tokens + 1] = redis.call('ZRANGE', queue, rank, rank)[1]
  end
  for _, token in ipairs(tokens) do
    local entry = redis.call('HGET', waiters, token)
    local since, beat, rest, process = string.match(entry or '', '^(%d+) (%d+)( %d+ (.*))$')
    if since and (tonumber(since) > now or since + 2000 < now) then
      local heard = math.min(since, now)
      local most = math.min(beat, now - heard + 2000)
      local asked = string.format('%.0f %.0f', heard, most - 1 + most % 2)
      redis.call('HSET', waiters, token, asked .. rest)
    end
    if since and process ~= '' then
      redis.pcall('SPUBLISH', grants .. process, 'beat ' .. token)
    end
  end
end

-- Does the work of give. Unlike give, it may end the script, for example if the user lacks a right.
local function grant(lock, holders, counter, s, token, lease, clock)
  local limit, permits = share_of(token)
  if not limit then
    local fence = next_fence(counter, clock)
    if type(fence) ~= 'number' then
      return fence
    end
    local taken
    if lease == '' then
      taken = redis.pcall('SET', lock, token)
    else
      taken = redis.pcall('SET', lock, token, 'PX', lease)
    end
    if taken.err then
      return taken
    end
    s.value = token
    return fence
  end
  local ends, now = '+inf', math.floor(clock / 1000)
  if lease ~= '' then
    ends = string.format('%.0f', now + tonumber(lease))
  end
  if s.phase then
    local added = redis.pcall('ZADD', holders, ends, s.phase .. ' ' .. permits .. ' ' .. token)
    if type(added) ~= 'number' then
      return added
    end
    s.used = s.used + permits
    redis.call('ZADD', holders, string.format('%.0f', s.used), s.phase)
    keep(lock, holders, ends, lease, now)
    return math.floor(tonumber(s.phase) or 0)
  end
  -- A new phase begins. The sorted set of the holders may still be there. If rlock wrote it in a former
  -- phase, its members are void, and the script deletes it. If another program wrote it, the script fails.
  -- SET of the key comes last, because no script counts the members until the key has the new phase.
  local former = redis.pcall('ZRANGE', holders, 0, 0)
  if former.err then
    return former
  end
  if former[1] and not string.match(former[1], '^%d+$') then
    return redis.error_reply('ERR the key of the holders has members that rlock has not written')
  end
  local fence = next_fence(counter, clock)
  if type(fence) ~= 'number' then
    return fence
  end
  local phase, mode = string.format('%.0f', fence), mode_of(limit)
  redis.call('DEL', holders)
  redis.call('ZADD', holders, permits, phase, ends, phase .. ' ' .. permits .. ' ' .. token)
  if lease == '' then
    redis.call('SET', lock, 'rlock:' .. mode .. ' ' .. phase)
  else
    local last = string.format('%.0f', now + 2 * tonumber(lease))
    redis.call('PEXPIREAT', holders, last)
    redis.call('SET', lock, 'rlock:' .. mode .. ' ' .. phase, 'PXAT', last)
  end
  s.value, s.mode, s.phase, s.used = 'rlock:' .. mode .. ' ' .. phase, mode, phase, tonumber(permits)
  return fence
end

-- Returns an error that pcall has caught, as an error reply.
local function caught(failure)
  if type(failure) == 'table' then
    return redis.error_reply(failure.err)
  end
  return redis.error_reply(failure)
end

-- Gives a free lock, or a share of a lock, to a token, and returns the fence. s is the table that look
-- returns, and give keeps it up to date. clock is the server's clock in microseconds.
--
-- If a command fails, give returns the error reply and never ends the script. The user may lack a right, and
-- the waiter whose turn it was must get its place back.
local function give(lock, holders, counter, s, token, lease, clock)
  local granted, fence = pcall(grant, lock, holders, counter, s, token, lease, clock)
  if not granted then
    return caught(fence)
  end
  return fence
end

-- Gives what is free to the first waiter in the queue, and tells that waiter. The waiters behind it get what
-- they ask for as far as that is free too. No waiter passes the first.
--
-- The script removes dead waiters. A waiter is dead if its process listens no more, or if the waiter was
-- silent for too long. One script looks at 250 waiters at most, so it can remove all waiters that another
-- script has asked. One script serves 100 waiters at most, because a grant costs more than a look. If there
-- may be more to do, the caller or another process goes on at once.
--
-- serve returns three values:
--
--   - What own has got: its fence or the error reply. own is the caller's token, which needs no message. The
--     empty string stands for no waiter.
--   - true if the server can tell no waiter that the lock is free. Each caller then takes what is free, as if
--     there were no queue.
--   - The number of milliseconds for which the first waiter may still be silent. The value 1 may also mean
--     that there is more to do. So after a 1 the caller calls again at once.
--
-- The message of a grant is "<lease> <fence> <how many wait> <bytes of the key> <key> <token>", with the
-- lease in milliseconds. The message has the key because the process may have given up the token. It must
-- then be able to release the lock. The message is the last step, because the process counts the lock as held
-- when it gets the message. If the message is lost, a heartbeat finds the grant.
local function serve(lock, queue, waiters, holders, grants, counter, s, own, own_lease, clock)
  local mine, looked, granted, now = nil, 0, 0, math.floor(clock / 1000)
  while looked < 250 and granted < 100 do
    looked = looked + 1
    local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if head.err or not head[1] then
      return mine, false, 0
    end
    local token, lease, process, dead = head[1], own_lease, '', head[1] == ''
    local limit, permits = share_of(token)
    if token ~= own then
      local entry = redis.call('HGET', waiters, token)
      local since, beat, asked, who = string.match(entry or '', '^(%d+) (%d+) (%d+) (.*)$')
      lease = '2000'
      if since then
        lease, process = asked, who
        local listening
        if process ~= '' then
          listening = redis.pcall('PUBSUB', 'SHARDNUMSUB', grants .. process)
          if listening.err then
            return mine, fits(s, limit, tonumber(permits)), 0
          end
        elseif tonumber(lease) > 2000 then
          lease = '2000'
        end
        local left = math.floor(tonumber(since) + tonumber(beat)) - now
        dead = left <= 0 or listening and listening[2] == 0
        if not dead and (tonumber(since) > now or since + 2000 < now) then
          -- Each waiter that the script has asked sends a heartbeat, and this heartbeat runs the same code.
          -- It need not ask all waiters again, and the odd beat says so.
          if tonumber(since) > now or beat % 2 == 0 then
            ask_front(queue, waiters, grants, now)
          end
          return mine, false, math.min(left, 2000)
        end
      end
    end
    if not dead and not fits(s, limit, tonumber(permits)) then
      return mine, false, 0
    end
    -- ZREM is the first write, because a server that is out of memory allows ZREM. After the first write of a
    -- script, that server allows every command.
    local removed = redis.pcall('ZREM', queue, token)
    if type(removed) ~= 'number' then
      return mine, true, 0
    end
    if not dead then
      local fence = give(lock, holders, counter, s, token, lease, clock)
      if type(fence) ~= 'number' then
        redis.pcall('ZADD', queue, head[2], token)
        redis.pcall('PEXPIRE', queue, 30000) -- the queue was gone if this was its only member
        if token == own then
          mine = fence
        end
        return mine, true, 0
      end
      granted = granted + 1
      if token == own then
        mine = fence
      elseif process ~= '' then
        -- Key and token may have any bytes. format does not get them, because %s ends at a NUL.
        local waiting = redis.call('ZCARD', queue)
        redis.pcall('SPUBLISH', grants .. process,
          lease .. string.format(' %.0f %.0f %.0f ', fence, waiting, #lock) .. lock .. ' ' .. token)
      end
    end
    redis.call('HDEL', waiters, token)
    if s.value and not s.phase then
      return mine, false, 0
    end
  end
  if mine or own == '' then -- the caller does not call again
    pcall(ask_front, queue, waiters, grants, now)
  end
  return mine, false, 1
end
