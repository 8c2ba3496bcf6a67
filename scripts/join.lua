-- Takes a lock, or waits for it in the queue of all processes that want it. A join takes the
-- lock if it is free and nobody else waits, and otherwise gets a place in the queue. A
-- heartbeat keeps that place. A try takes the lock as a join does, and gets no place. If the
-- lock is free and others wait, each of the three gives it to the first in the queue, so that
-- a lock whose lease has ended is passed on by whoever asks next.
--
-- A token joins once, with one script, and is never used again. A heartbeat never inserts: a
-- push about an earlier place of the token could be on its way, and the process would take it
-- for a grant of the new place. A caller that is told neither granted nor queued goes on with a
-- new token and the old score. A caller that lost the reply may send the same call again; it may
-- then have joined late, so it must count the lease of a pushed grant from its first call. So the
-- caller must know of each call that is sent, and the client must not repeat one by itself.
--
-- name: Join
-- mode: write
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[3]   grants  channels   what the channels of all processes start with
-- KEYS[4..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     token of this wait, which no other has
-- ARGV[2]   ttl     duration?  lease; absent: the lock never expires
-- ARGV[3]   process string     who is told of a grant: it has no colon; empty: nobody, the caller asks
-- ARGV[4]   how     enum(join|heartbeat|try)
-- ARGV[5]   since   int        score of an earlier token of this wait; 0: none
-- ARGV[6]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: granted bool, fence int, remaining duration, score int, ahead int

-- include: queue/next_fence.lua

local lock, queue, grants, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, process, how, since, barging = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- Most locks are free and nobody waits for them. What is below gives the same answer, but the
-- server would first make all its functions.
local holder = redis.call('GET', lock)
if not holder and how ~= 'heartbeat' and redis.call('EXISTS', queue) == 0 then
  local fence = next_fence(counter)
  if type(fence) ~= 'number' then
    return fence
  end
  if ttl == '' then
    redis.call('SET', lock, token)
    return {1, fence, -1, 0, 0}
  end
  redis.call('SET', lock, token, 'PX', ttl)
  return {1, fence, tonumber(ttl), 0, 0}
end

-- include: queue/grant.lua
-- include: queue/enqueue.lua
-- include: queue/barging.lua

local member = member_of(token, ttl, process)
if holder == token then
  -- The token may have got the lock in another way than by its place, as a set of locks does. ZREM
  -- is the first write because a server that is out of memory allows it, and then the fence: it
  -- must confirm what a release has granted.
  redis.pcall('ZREM', queue, member)
  local fence = next_fence(counter)
  if type(fence) ~= 'number' then
    return fence
  end
  -- GT never shortens a lease: this call may have been delayed, and another call may have
  -- extended the lock since.
  if ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
  end
  return {1, fence, redis.call('PTTL', lock), 0, 0}
end

local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
local score = head[1] and redis.call('ZSCORE', queue, member)
local open = 0
if not holder and head[1] then
  open = open_for(barging)
end
if not holder and open == 0 then
  -- The lock is free. The first of the queue gets it, and if that is this token, by the answer.
  -- One script looks at 64 waiters at most; the next heartbeat goes on.
  local wants, alone = score or how ~= 'heartbeat', false
  for _ = 1, 64 do
    local before = how == 'join' and since > 0 and head[2] and since < tonumber(head[2])
    if wants and (alone or not head[1] or head[1] == member or before) then
      local fence = next_fence(counter)
      if type(fence) ~= 'number' then
        return fence
      end
      if ttl == '' then
        redis.call('SET', lock, token)
      else
        redis.call('SET', lock, token, 'PX', ttl)
      end
      if score then
        redis.call('ZREM', queue, member)
      end
      return {1, fence, redis.call('PTTL', lock), 0, 0}
    end
    if not head[1] or alone then
      break
    end
    local granted = grant(lock, queue, counter, grants, head[1], head[2])
    if granted then
      break
    end
    -- If the server can tell nobody, whoever asks takes the lock, as if there were no queue.
    alone = granted == nil
    head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  end
end

-- What the caller waits for may be the end of a lease, or of the time in which the lock stays free.
local remaining = open
if open == 0 then
  remaining = redis.call('PTTL', lock)
end
if score then
  score = tonumber(score)
  redis.call('PEXPIRE', queue, 30000)
elseif how == 'join' then
  score = enqueue(queue, member, since)
  if type(score) ~= 'number' then
    return score
  end
else
  return {0, 0, remaining, 0, 0}
end
return {0, 0, remaining, score, redis.call('ZRANK', queue, member) or 0}
