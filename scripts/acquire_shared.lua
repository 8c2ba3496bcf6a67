-- Takes a share of a lock, or waits for it in the queue of the lock. Those who share a lock are
-- readers, of whom any number may hold it together, or holders of permits, of which there are as
-- many as the limit. A join takes the share if it is free and nobody waits, and otherwise gets a
-- place in the queue, as Join does for the whole lock. A heartbeat keeps the place. A try takes the
-- share as a join does, and gets no place. Each of the three removes the holders whose lease is
-- over, and lets in those at the head of the queue.
--
-- A script that passes a lock on grants the whole lock to the first in the queue, which may be this
-- token. From this call on the lock is then shared, with those behind it in the queue. A share that
-- the token has already is confirmed: its lease ends when it was to end or when the new one does,
-- whichever is later.
--
-- If the present holders have another limit than the token, the reply has theirs, and the script has
-- done nothing for the caller. Otherwise the limit in the reply is -1.
--
-- name: AcquireShared
-- mode: write
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   holders key        the sorted set of those who share the lock
-- KEYS[3]   queue   key        the queue of the lock: a sorted set of those who wait
-- KEYS[4]   counter key        fence counter of the lock's slot
-- KEYS[5]   grants  channels   what the channels of all processes start with
-- ARGV[1]   token   string     token of this wait, which no other has; its text has the limit and the number of permits
-- ARGV[2]   ttl     duration?  lease; absent: the share never expires
-- ARGV[3]   process string     who is told of a grant: it has no colon; empty: nobody, the caller asks
-- ARGV[4]   how     enum(join|heartbeat|try)
-- ARGV[5]   since   int        score of an earlier token of this wait; 0: none
-- ARGV[6]   barging duration?  for how long in each second a free lock stays free although others wait
-- returns: granted bool, fence int, remaining duration, score int, ahead int, limit int

-- include: queue/grant.lua
-- include: queue/barging.lua
-- include: queue/enqueue.lua
-- include: shared/holders.lua
-- include: shared/admit.lua

local lock, holders, queue, counter, grants = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl, process, how, since, barging = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]

local limit, permits = share_of(token)
if not limit then
  return redis.error_reply('ERR the token is not of a share')
end
permits = tonumber(permits)
if permits < 1 or limit ~= '0' and permits > tonumber(limit) then
  return redis.error_reply('ERR there are fewer permits than the token wants')
end

local value = redis.call('GET', lock)
local phase, present = phase_of(value)
local now, deadline = milliseconds(), '+inf'
if ttl ~= '' then
  deadline = now + tonumber(ttl)
  if deadline >= 9007199254740992 then
    return redis.error_reply('ERR the lease is too long')
  end
  deadline = string.format('%.0f', deadline)
end
local left = tonumber(ttl) or -1
local member = member_of(token, ttl, process)

if phase then
  purge(holders, now)
  if redis.call('ZCARD', holders) == 0 then
    redis.call('DEL', lock)
    value, phase = nil, nil
  end
end

-- Begins a phase with this token, and lets in those behind it. The lock is free, or this token's. If the
-- token waits, or has the lock, ZREM comes first because a server that is out of memory allows it, and then
-- any command. Nobody else takes a free lock then.
local function start(granted)
  if granted then
    redis.pcall('ZREM', queue, member)
  end
  local fence = next_fence(counter)
  if type(fence) ~= 'number' then
    return fence
  end
  local new = string.format('%.0f', fence)
  local failed = begin(lock, holders, new, limit, token, permits, deadline)
  if failed then
    return failed
  end
  admit(lock, holders, queue, grants, new, limit, now, token)
  keep(lock, holders)
  return {1, fence, left, 0, 0, -1}
end

-- Confirms the share that this token has, with the later one of two leases. ZREM comes first because a
-- server that is out of memory allows it, and then ZADD: what a release has let in must be confirmed.
local function confirm(score)
  redis.pcall('ZREM', queue, member)
  if ttl == '' or score ~= 'inf' and tonumber(score) < tonumber(deadline) then
    add(holders, phase, token, permits, deadline)
  end
  keep(lock, holders)
  return {1, tonumber(phase) or 0, left, 0, 0, -1}
end

if value == token then
  return start(true)
end

-- While a free lock stays free, nobody else gets a share either, so that a lock that is shared becomes free.
local open = 0
if phase or not value and redis.call('EXISTS', queue) == 1 then
  open = open_for(barging)
end

if phase then
  local first = phase .. ' 1 ' .. token
  local score = redis.call('ZSCORE', holders, first)
  if score then
    return confirm(score)
  end
  if present ~= limit then
    return {0, 0, redis.call('PTTL', lock), 0, 0, tonumber(present) or 0}
  end
  local alone = open == 0 and admit(lock, holders, queue, grants, phase, limit, now, token)
  score = redis.call('ZSCORE', holders, first)
  if score then
    return confirm(score)
  end
  local wants = how ~= 'heartbeat' or alone and redis.call('ZSCORE', queue, member)
  if open == 0 and wants and (alone or redis.call('EXISTS', queue) == 0) and fits(holders, limit, permits) then
    add(holders, phase, token, permits, deadline)
    if alone then
      redis.pcall('ZREM', queue, member)
    end
    keep(lock, holders)
    return {1, tonumber(phase) or 0, left, 0, 0, -1}
  end
  keep(lock, holders)
end

local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
local score = head[1] and redis.call('ZSCORE', queue, member)
if not value and open == 0 then
  -- The lock is free. The first of the queue gets it, and if that is this token, by the answer. If
  -- the server can tell nobody, whoever asks takes the lock, as if there were no queue. One script looks
  -- at 64 waiters at most; the next heartbeat goes on.
  local wants, unheard, mine = score or how ~= 'heartbeat', false, false
  for i = 0, 64 do
    local before = how == 'join' and since > 0 and head[2] and since < tonumber(head[2])
    mine = wants and (unheard or not head[1] or head[1] == member or before)
    if mine or not head[1] or unheard or i == 64 then
      break
    end
    local granted = grant(lock, queue, counter, grants, head[1], head[2])
    if granted then
      break
    end
    unheard = granted == nil
    head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  end
  if mine then
    return start(score)
  end
end

-- remaining is how long it takes until a share may be free: until the first lease of those who share
-- the lock ends, or that of the holder of the whole lock, or the time in which the lock stays free.
local remaining = redis.call('PTTL', lock)
if open > 0 then
  remaining = open
elseif phase then
  local soonest = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
  remaining = -1
  if soonest[2] and soonest[2] ~= 'inf' then
    remaining = math.max(tonumber(soonest[2]) - now, 0)
  end
end

if score then
  redis.call('PEXPIRE', queue, 30000)
  score = tonumber(score)
elseif how == 'join' then
  score = enqueue(queue, member, since)
  if type(score) ~= 'number' then
    return score
  end
else
  return {0, 0, remaining, 0, 0, -1}
end
return {0, 0, remaining, score, redis.call('ZRANK', queue, member) or 0, -1}
