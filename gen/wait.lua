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
-- include: fence.lua
-- Returns the next fence of a counter, or 0 if there is no counter. If a command fails, the function returns
-- the error reply. The user may lack a right, or the counter may be of another type.
--
-- A failover may set the counter back, but the counter must not give out a fence twice. So the function
-- compares the counter with the server's clock in microseconds, rounded down to a multiple of 65,536. If the
-- counter is behind, the function raises the counter to the clock. The rounding limits these writes to 16 a
-- second.
--
-- A counter that is new, or that the server lost, starts at the exact clock. The clock is above all former
-- fences, because the server took more than a microsecond for each fence.
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
-- A lock that has shares has the value "rlock:readers <phase>" or "rlock:permits <phase>" in its key. The
-- phase is a fence, which no other phase has. A sorted set beside the key has these members:
--
--   - "<phase>". Its score is the number of permits in use, which is below each end of a lease.
--   - "<phase> <permits> <token>" for each holder of a share. Its score is the end of the lease by the
--     server's clock, in milliseconds.
--
-- If the first member is not the key's phase, the server has lost the set. Then nobody knows the holders, and
-- the scripts grant no share until the key is gone.
--
-- The token of a share is "rlock:share:<limit>:<permits>:<id>". A reader has the limit 0 and one permit, and
-- any number of readers share a lock. A holder of permits names its own limit, and other holders may name
-- others.

-- Returns the limit and the permits that a token asks for, or nil if the token asks for the whole lock.
local function share_of(token)
  return string.match(token, '^rlock:share:(%d+):(%d+):')
end

local function mode_of(limit)
  return limit == '0' and 'readers' or 'permits'
end

-- Makes the key and the set last at least as long as a new lease. The server reports each write of the key to
-- all clients that watch it. So the function sets an end later than needed, and most later leases need no
-- write. The scripts do not count a holder whose own lease is over.
local function keep(lock, holders, ends, lease, now)
  if ends == '+inf' then
    redis.call('PERSIST', holders)
    redis.call('PERSIST', lock)
    return
  end
  -- Both keys have the same expiry, unless another program has changed one of them.
  local left, set = redis.call('PTTL', lock), redis.call('PTTL', holders)
  if left >= 0 and now + left < tonumber(ends) or set >= 0 and now + set < tonumber(ends) then
    local last = string.format('%.0f', now + 2 * tonumber(lease))
    redis.call('PEXPIREAT', holders, last)
    redis.call('PEXPIREAT', lock, last)
  end
end

-- Shortens the expiry of both keys to fit the leases that are left. The longest lease may just have gone.
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

-- Removes the set of a phase that is over. If a share's lease never ended, the set has no expiry. The set
-- would stay for ever after another program has deleted the key.
local function sweep(holders)
  local first = redis.pcall('ZRANGE', holders, 0, 0)
  if first[1] and string.match(first[1], '^%d+$') then
    redis.call('DEL', holders)
  end
end

-- Reads who has a lock, and returns a table with these fields:
--
--   - value: the value of the key, or false if the lock is free
--   - mode and phase: only of a lock that has shares
--   - used: the number of permits in use, or nil if the server has lost the set
--   - soonest: the end of the lease that ends first
--
-- The function removes up to 64 holders whose lease is over. Any others still count. now is the clock in
-- milliseconds.
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

-- Reports whether what a token asks for is free. The limit in the token decides.
local function fits(s, limit, permits)
  if not limit then
    return not s.value
  end
  if not s.value then
    return true
  end
  return s.mode == mode_of(limit) and s.used ~= nil and (limit == '0' or s.used + permits <= tonumber(limit))
end

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
-- include: include/place.lua
-- Notes that the token of a waiter sent a call. ahead is the number of waiters before it. The first five
-- waiters send a heartbeat once a second, and the waiters behind them send fewer. Each may miss three.
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
-- Returns how many more milliseconds a free lock stays free although processes wait for the lock. 0 means
-- that the first waiter gets the lock now.
--
-- A lock stays free in the first barging milliseconds of each second of the server's clock. In that time,
-- callers outside the queue can take the lock, such as callers of other libraries. This is called barging.
-- The clock alone decides, so no key stores the time. A process that waits for several locks in turn finds
-- all of them open at the same time.
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
