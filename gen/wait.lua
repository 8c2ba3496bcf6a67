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
-- include: fence.lua
-- Returns the next fence of a counter; 0 if there is no counter. If the counter is behind the server's clock
-- (in microseconds, rounded down to a multiple of 65,536), the script raises it to the clock, because a
-- failover may have set the counter back: it must not give out a fence twice. The rounding limits these
-- writes to 16 a second. A counter that is new, because there was none or the server lost it, starts at the
-- exact clock. That is above all former fences, because the server took more than a microsecond for each of
-- them. If it fails, it returns the error reply: the user may lack a right, or the counter may be of another
-- type.
local function next_fence(counter, clock)
  if not counter then
    return 0
  end
  local fence = redis.pcall('INCR', counter)
  if type(fence) ~= 'number' then
    return fence
  end
  local minimum = clock - clock % 65536
  if fence == 1 then
    minimum = clock
  end
  if fence < minimum then
    fence = minimum
    local raised = redis.pcall('SET', counter, string.format('%.0f', fence))
    if raised.err then
      return raised
    end
  end
  return fence
end
-- include: holders.lua
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
-- include: include/place.lua
-- Notes that a token that stands so far behind the first was heard of. The first five beat once a second,
-- those behind more slowly, and each may miss three beats.
local function heard(waiters, token, ahead, lease, process, now)
  local beat = 2000
  if process ~= '' then
    beat = math.min(500 * math.max(4 + ahead, 8), 60000)
  end
  local asked = lease == '' and '10000' or lease
  local at = string.format('%.0f', now)
  redis.call('HSET', waiters, token, at .. ' ' .. beat .. ' ' .. asked .. ' ' .. process)
end

local function last_on(queue, waiters)
  redis.call('PEXPIRE', queue, 30000)
  redis.call('PEXPIRE', waiters, 30000)
end
-- include: include/barging.lua
-- Returns for how many milliseconds from now on a free lock stays free although processes wait for it; 0: the
-- first of them gets it. A lock does so for the first barging milliseconds of each second of the server's
-- clock. In that time callers that stand in no queue, such as those of other libraries, can take it, which is
-- called barging. The clock alone says when, so no key has to remember it, and the locks that a process waits
-- for one after the other are open at the same time.
local function open_for(barging, now)
  local length = tonumber(barging) or 0
  if length <= 0 then
    return 0
  end
  return math.max(length - now % 1000, 0)
end

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
