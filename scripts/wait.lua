-- Takes a lock, or a share of it, or waits for that in the queue of all processes that want the lock. Those
-- who share a lock are readers, of whom any number may hold it together, or holders of permits. A join takes
-- what it wants if that is free and nobody else waits, and otherwise gets a place in the queue. A heartbeat
-- keeps the place. A try takes as a join does, and gets no place. Each of the three also gives what is free
-- to those who wait first: so a lock whose lease has ended is passed on by whoever asks next.
--
-- Permits are granted if those in use and its own fit the limit that the token names. Others may name
-- another limit, so that later more may be in use than that. A request for many permits at the head of the
-- queue keeps out those behind it.
--
-- A token joins once, with one script, and is never used again. A heartbeat never inserts: a push about an
-- earlier place of the token could be on its way, and the process would take it for a grant of the new place.
-- A caller that is told neither granted nor queued goes on with a new token and the old score. A caller that
-- lost the reply may send the same call again; it may then have joined late, so it must count the lease of a
-- pushed grant from its first call. So the caller must know of each call that is sent, and the client must
-- not repeat one by itself.
--
-- name: Wait
-- mode: write
-- KEYS[1]   lock    key        the lock
-- KEYS[2]   queue   key        the queue of the lock: a sorted set of the tokens that wait
-- KEYS[3]   waiters key        the hash that says who they are
-- KEYS[4]   holders key        the sorted set of those who share the lock
-- KEYS[5]   grants  channels   what the channels of all processes start with
-- KEYS[6..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     token of this wait, which no other has
-- ARGV[2]   ttl     duration?  lease; absent: it never ends
-- ARGV[3]   process string     who is told of a grant; empty: nobody, the caller asks
-- ARGV[4]   how     enum(join|heartbeat|try)
-- ARGV[5]   since   int        score of an earlier token of this wait; 0: none
-- ARGV[6]   barging duration?  for how long in each second a free lock stays free although others wait
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

-- What the token has already is confirmed, with the later one of two leases: this call may have been delayed,
-- and another call may have extended the lease since. ZREM is the first write because a server that is out of
-- memory allows it: what a release has granted must be confirmed.
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
local stood = score -- a call that fails leaves the token its place, and gives it none
local wants = how ~= 'heartbeat' or score
local free = not s.value or s.phase
if not wants then
  leave(queue, waiters, token)
end

-- While a free lock stays free, nobody gets a share of it either, so that a lock that is shared becomes free.
local open = 0
if free and (waited or s.phase) then
  open = open_for(barging, now)
end

-- A place comes before what it waits for, so that there is one order for all. A new score is above all
-- others, so the order is kept if the clock goes back or stands still.
local ahead = 0
local function place()
  if not score then
    score = since
    if score == 0 then
      local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
      score = math.max(clock, (tonumber(last[2]) or 0) + 1)
    end
    redis.call('ZADD', queue, string.format('%.0f', score), token)
    if not waited then -- ZADD is the first write: a server that is out of memory refuses it
      forget(waiters, token)
    end
  end
  ahead = redis.call('ZRANK', queue, token) or 0
  heard(waiters, token, ahead, ttl, process, now)
  last_on(queue, waiters)
end
-- Without all that a place needs, such as the right to any of the commands, there is none.
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

-- A caller leaves each of those before it a little time to come first. While the first is silent, most of
-- them may be dead too, so only a few count.
if silent > 0 then
  ahead = math.min(ahead, 11)
end

-- What the caller waits for is the end of a lease, of the time in which the lock stays free, or of that in
-- which the first in the queue may be silent.
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
