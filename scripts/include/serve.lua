-- include: fence.lua
-- include: holders.lua

-- The queue of a lock is a sorted set of tokens, each with the server's clock when it joined, in
-- microseconds. A hash beside it says of each token "<heard> <beat> <lease> <process>": when the token was
-- heard of the last time and for how long that is enough, which lease it asks for, all in milliseconds, and
-- who is told of a grant. If <beat> is odd, the token was asked to beat, and has not done so yet. The lease
-- of a waiter that asks for one without an end is ten seconds, which the waiter makes endless as soon as it
-- knows of the grant: a process that is dead must not get a lock for ever. A waiter that cannot be told has
-- no process, and finds its grant by a heartbeat. Both keys last for half a minute after the last waiter has
-- joined or beaten: what dead processes leave behind ends by itself.

-- Forgets all who waited in a queue that is gone, because somebody has deleted it: nobody can take their
-- fields out one by one, and each token that joins would have them last for longer. HDEL fails if the key is
-- no hash: then it is not rlock's, and stays.
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

-- Asks the first 200 and up to 50 of those behind them to beat at once. Those of whom nothing was heard for
-- two seconds count as dead after two more. All are asked together, as soon as the first is silent and
-- however soon it counts as dead, so that 200 dead processes cost the others one time of waiting and not one
-- each: each may be silent for half a second longer than the one before it. Those behind are asked because
-- the 200 may all be dead, and somebody who lives must look then. Those who were heard of lately are asked
-- because they may be about to say nothing for 15 seconds.
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

-- Does what give does, and ends the script if the user lacks a right.
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
  -- A new phase. The set may be that of a former one, whose members are void. If it is not, somebody else
  -- uses its name. The key comes last: until it has the value, nobody counts the members.
  local former = redis.pcall('ZRANGE', holders, 0, 0)
  if former.err then
    return former
  end
  if former[1] and not string.match(former[1], '^%d+$') then
    return redis.error_reply('ERR the key that is to have the holders has members that rlock has not written')
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

-- Returns what pcall has caught as an error reply.
local function caught(failure)
  if type(failure) == 'table' then
    return redis.error_reply(failure.err)
  end
  return redis.error_reply(failure)
end

-- Gives a lock that is free, or a share of it, to a token, and returns the fence. s is what look has read,
-- and what is read next. clock is the server's, in microseconds. If it fails, it returns the error reply, and
-- never ends the script: the user may lack a right, and a waiter whose turn it was must get its place back.
local function give(lock, holders, counter, s, token, lease, clock)
  local granted, fence = pcall(grant, lock, holders, counter, s, token, lease, clock)
  if not granted then
    return caught(fence)
  end
  return fence
end

-- Gives what is free to the first in the queue, and to those behind as far as what they ask for is free too,
-- and tells them. Nobody passes the first. Those who are dead are taken out: nobody listens in their process,
-- or nothing was heard of them for too long. One script looks at 250 at most, so that it can take out all
-- whom another has asked, and serves 100 at most, which costs more. If there may be more to do, the caller or
-- somebody else goes on at once.
--
-- It returns what own has got: its fence, or the error reply. own is the caller's token, which need not be
-- told; '' is nobody, and no waiter. Then whether the server can tell nobody that there is what the first
-- wants: whoever asks takes what is free then, as if there were no queue. Then for how many milliseconds the
-- first may still be silent, or 1 if there may be more to do: the caller then comes again at once.
--
-- The message of a grant is "<lease> <fence> <how many wait> <bytes of the key> <key> <token>", with the
-- lease in milliseconds. It names the key, because a process may be granted a lock for a token that it has
-- given up, and must be able to release that lock. It is the last step: a process that gets it counts the
-- lock as held. If the message is lost, a heartbeat finds the grant.
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
          -- All who are asked send a heartbeat, which comes here too. It need not look at them all again.
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
    -- ZREM is the first write: a server that is out of memory allows it, and allows any command after the
    -- first write of a script.
    local removed = redis.pcall('ZREM', queue, token)
    if type(removed) ~= 'number' then
      return mine, true, 0
    end
    if not dead then
      local fence = give(lock, holders, counter, s, token, lease, clock)
      if type(fence) ~= 'number' then
        redis.pcall('ZADD', queue, head[2], token)
        redis.pcall('PEXPIRE', queue, 30000) -- if it was the only member, the queue was gone
        if token == own then
          mine = fence
        end
        return mine, true, 0
      end
      granted = granted + 1
      if token == own then
        mine = fence
      elseif process ~= '' then
        -- Key and token may have any bytes. They are not formatted, because %s ends at a NUL.
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
  if mine or own == '' then -- the caller does not come again
    pcall(ask_front, queue, waiters, grants, now)
  end
  return mine, false, 1
end
