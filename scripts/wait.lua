-- Takes a lock or a share of a lock, or waits in the queue of all processes that want the lock.
--
-- A share belongs to a reader or to a holder of permits. Any number of readers may hold a lock together. A
-- call is one of three kinds:
--
--   - A join takes what it asks for, if that is free and nobody else waits. Otherwise the token
--     gets a place in the queue.
--   - A heartbeat keeps a place, and never inserts one.
--   - A try takes what a join takes, and never inserts a place.
--
-- Each call also gives what is free to the first waiters. So the next call of any kind passes on a lock whose
-- lease has ended.
--
-- The server grants permits if the permits in use and the new permits fit the limit in the token. Other
-- tokens may name another limit, so more permits may later be in use than this limit. A request for many
-- permits at the head of the queue keeps out all waiters behind it.
--
-- A token joins once, and its caller uses the token for no later wait. A heartbeat inserts nothing for this
-- reason: a message about an earlier place may still be on its way. The process would take the message for
-- a grant of the new place. If the reply says neither granted nor queued, the caller goes on with a new token
-- and the old score.
--
-- A caller that lost the reply may send the same call again. Either of the two calls may have inserted the
-- token. So the caller counts the lease of a pushed grant from its first call. The caller must know of each
-- call that is sent, so the client must not send a call again by itself.
--
-- name: Wait
-- mode: write
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock, a sorted set of the waiters' tokens
-- KEYS[3]   waiters key        a hash with one entry for each token of the queue
-- KEYS[4]   holders key        the sorted set of the holders of shares
-- KEYS[5]   grants  channels   the prefix of the processes' channels, for messages about grants
-- KEYS[6..] counter key        the fence counter of the lock's slot; absent: the fence is 0
-- ARGV[1]   token   string     the token of this wait, which no other wait has
-- ARGV[2]   ttl     duration?  the lease; absent: the lease never ends
-- ARGV[3]   process string     the process that the server tells of a grant; empty: none, the caller asks
-- ARGV[4]   how     enum(join|heartbeat|try)
-- ARGV[5]   since   int        the score of an earlier token of this wait; 0: there is none
-- ARGV[6]   barging duration?  the time in each second in which a free lock stays free,
--     even if its queue has waiters
-- returns: granted bool, fence int, remaining duration, score int, ahead int

-- include: include/serve.lua
-- include: include/place.lua
-- include: include/barging.lua

local lock, queue, waiters, holders, grants, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, ttl, process, how = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local since, barging = tonumber(ARGV[5]), ARGV[6]

local limit, permits = share_of(token)
permits = tonumber(permits)
if not limit and string.sub(token, 1, 6) == 'rlock:' then
  return redis.error_reply('ERR the token is of no kind that this script knows')
end
if limit and (permits < 1 or limit ~= '0' and permits > tonumber(limit)) then
  return redis.error_reply('ERR there are fewer permits than the token wants')
end
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local now = math.floor(clock / 1000)
if limit and now + (tonumber(ttl) or 0) >= 4503599627370496 then
  return redis.error_reply('ERR the lease is too long')
end

local s = look(lock, holders, now)
local left = tonumber(ttl) or -1

-- The script confirms what the token already has. The lease ends at the old end or at the new end, whichever
-- is later. This call may be late, and another call may have extended the lease before it. ZREM is the first
-- write because a server that is out of memory allows ZREM. The script must confirm a grant even then.
if s.value == token then
  leave(queue, waiters, token)
  local fence = next_fence(counter, clock)
  if type(fence) ~= 'number' then
    return fence
  end
  if ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
  end
  return {1, fence, redis.call('PTTL', lock), 0, 0}
end
if s.phase and limit then
  local member = s.phase .. ' ' .. permits .. ' ' .. token
  if redis.call('ZSCORE', holders, member) then
    leave(queue, waiters, token)
    local ends = '+inf'
    if ttl ~= '' then
      ends = string.format('%.0f', now + ttl)
    end
    keep(lock, holders, ends, ttl, now)
    redis.call('ZADD', holders, 'XX', 'GT', ends, member)
    return {1, math.floor(tonumber(s.phase) or 0), left, 0, 0}
  end
end

local score = redis.call('ZSCORE', queue, token)
local waited = score or redis.call('EXISTS', queue) == 1
local stood = score -- a call that fails neither takes away a place nor adds one
local wants = how ~= 'heartbeat' or score
local free = not s.value or s.phase
if not wants then
  leave(queue, waiters, token)
end

-- While a free lock stays free for callers outside the queue, the script grants no share either. Otherwise a
-- lock with shares might never become free.
local open = 0
if free and (waited or s.phase) then
  open = open_for(barging, now)
end

-- The token gets its place before it gets the lock, so one order holds for all waiters. A new score is above
-- all other scores, so the order also holds if the clock goes back or stands still.
local ahead = 0
local function place()
  if not score then
    score = since
    if score == 0 then
      local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
      score = math.max(clock, (tonumber(last[2]) or 0) + 1)
    end
    redis.call('ZADD', queue, string.format('%.0f', score), token)
    if not waited then -- after ZADD, which a server out of memory refuses as a first write
      forget(waiters, token)
    end
  end
  ahead = redis.call('ZRANK', queue, token) or 0
  heard(waiters, token, ahead, ttl, process, now)
  last_on(queue, waiters)
end
-- A place needs each of these commands. If one fails, as without a right, the token gets no place.
local function stand()
  local placed, failed = pcall(place)
  if placed then
    return nil
  end
  if not stood then
    leave(queue, waiters, token)
  end
  return caught(failed)
end
if score or waited and how == 'join' then
  local failed = stand()
  if failed then
    return failed
  end
end

local got, silent = nil, 0
if free and open == 0 then
  local alone = false
  if waited then
    got, alone, silent = serve(lock, queue, waiters, holders, grants, counter, s, token, ttl, clock)
    ahead = redis.call('ZRANK', queue, token) or 0
  end
  local next = not got and wants and (alone or not waited or redis.call('EXISTS', queue) == 0)
  if next and fits(s, limit, permits) then
    got = give(lock, holders, counter, s, token, ttl, clock)
    if score and type(got) == 'number' then
      leave(queue, waiters, token)
    end
  end
  if got and type(got) ~= 'number' then
    if not stood then
      leave(queue, waiters, token)
    end
    return got
  end
  if got then
    return {1, got, left, 0, 0}
  end
end
if not waited and how == 'join' then
  local failed = stand()
  if failed then
    return failed
  end
end

-- A caller lets each waiter before it come first, and so waits a little for each of them. While the first
-- waiter is silent, most of them may be dead too. So only 11 count.
if silent > 0 then
  ahead = math.min(ahead, 11)
end

-- remaining is the time until the caller may get further. The caller waits for the end of one of three times:
-- a lease, the time in which the lock stays free, or the time in which the first waiter may be silent.
local remaining = silent
if open > 0 then
  remaining = open
elseif silent == 0 and s.used then
  local ends = s.soonest
  if not limit then
    ends = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  end
  remaining = -1
  if ends and ends ~= 'inf' then
    remaining = math.max(math.floor(tonumber(ends)) - now, 0)
  end
elseif silent == 0 then
  remaining = redis.call('PTTL', lock)
end
return {0, 0, remaining, tonumber(score or 0), ahead}
