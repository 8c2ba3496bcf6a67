-- include: next_fence.lua

-- A member of the queue says who waits: lease in milliseconds, process, token, with a colon
-- behind each of the first two. The lease is the one that the waiter asked for; a waiter that
-- asked for a lock without expiry gets ten seconds, and makes that endless as soon as it knows
-- of the grant: a process that is dead must not get a lock for ever. A waiter that cannot be
-- told has no process in its member, and finds its grant by a heartbeat. It sends one every
-- quarter of a second, so it gets two seconds at most: nobody knows whether it is alive. The
-- heartbeat that finds the grant makes that the lease that the waiter asked for.
local function member_of(token, ttl, process)
  local lease = ttl
  if ttl == '' then
    lease = '10000'
  end
  return lease .. ':' .. process .. ':' .. token
end

-- Gives a free lock, or one that its holder gives up, to the waiter at the head of its queue,
-- and tells the waiter's process. Returns true if that waiter has the lock now; false if
-- nobody would hear of it, and the waiter is out of the queue; nil if it cannot be done, and
-- the queue is as it was.
--
-- The server counts who listens before anything is written, and the message is the last step:
-- a process that gets it counts the lock as held, so there must be no message without a grant.
-- PUBSUB SHARDNUMSUB may count nobody although somebody listens, as on a replica; nothing is
-- sent then.
--
-- The message is "<lease> <fence> <how many wait> <bytes of the key> <key> <token>", with the
-- lease in milliseconds. It names the key, because a process may be granted a lock for a token
-- that it has given up, and must be able to release that lock.
local function grant(lock, queue, counter, grants, member, score)
  local lease, process, token = string.match(member, '^(%d+):([^:]*):(.*)$')
  if not token then
    redis.pcall('ZREM', queue, member) -- it is no waiter
    return false
  end
  local channel = grants .. process
  if process == '' then
    if tonumber(lease) > 2000 then
      lease = '2000'
    end
  else
    local listening = redis.pcall('PUBSUB', 'SHARDNUMSUB', channel)
    if listening.err then
      return nil
    end
    if listening[2] == 0 then
      redis.pcall('ZREM', queue, member)
      return false
    end
  end
  local waiting = redis.pcall('ZCARD', queue)
  if type(waiting) ~= 'number' then
    return nil
  end

  -- ZREM is the first write: a server that is out of memory allows it, and allows any command
  -- after the first write of a script.
  local removed = redis.pcall('ZREM', queue, member)
  if type(removed) ~= 'number' then
    return nil
  end
  local fence = next_fence(counter)
  if type(fence) == 'number' then
    redis.call('SET', lock, token, 'PX', lease)
    if process == '' then
      return true
    end
    -- Key and token may have any bytes. They are not formatted, because %s ends at a NUL.
    local message = lease .. string.format(' %.0f %.0f %.0f ', fence, waiting - 1, #lock) .. lock .. ' ' .. token
    local sent = redis.pcall('SPUBLISH', channel, message)
    if type(sent) == 'number' then
      return true
    end
    -- Nobody may publish. Frees the lock as acquire.lua does.
    redis.call('SET', lock, token, 'PXAT', 1)
  end
  redis.pcall('ZADD', queue, score, member)
  redis.pcall('PEXPIRE', queue, 30000) -- if it was the only member, the queue was gone
  return nil
end
