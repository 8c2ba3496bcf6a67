-- Takes all locks of a set, or none. Locks that this token already holds are confirmed, so
-- a caller that lost the reply may safely send the same call again. If another token holds
-- one of the locks, the reply has the position of that lock, and the script changes nothing.
-- The same holds for a lock that is free and that others wait for: nobody overtakes them. What is
-- left of its lease is then -2, and Wait passes it on to the first of them. So it is with a lock that several
-- share, if the caller asks for all: their leases may be over before their key is, and Wait knows. If the
-- caller asks for a part, the script takes the locks before the one in the reply.
--
-- name: AcquireAll
-- mode: write retryable
-- KEYS[1..] keys    key        the locks; then their queues, or none: nobody waits in one; then the fence
--     counters of their slots; no counters: no fence
-- ARGV[1]   token   string     token of this acquisition, which no other has
-- ARGV[2]   ttl     duration?  lease of every lock; absent: the locks never expire
-- ARGV[3]   locks   int        how many of the keys are locks
-- ARGV[4]   partial bool       whether to take the locks before the first that cannot be had
-- ARGV[5]   queued  bool       whether the queues are among the keys
-- returns: acquired bool, remaining duration, fence int, held int


local token, ttl, locks, partial = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local names = locks
if locks and ARGV[5] == '1' then
  names = 2 * locks
end
if not locks or locks < 1 or names > #KEYS then
  return redis.error_reply('ERR the number of locks is not between 1 and the number of keys')
end

-- Takes or confirms the first count locks, with one command for each. One MSET would not do, because it sets
-- no lease, and unpack() fails at about eight thousand values. GT never shortens a lease, because this call
-- may have been delayed. Those that are taken come first: a server that is out of memory refuses SET, and
-- after a PEXPIRE it would allow any command.
local owned, some = {}, false
local function take(count)
  for i = 1, count do
    if not owned[i] and ttl == '' then
      redis.call('SET', KEYS[i], token)
    elseif not owned[i] then
      redis.call('SET', KEYS[i], token, 'PX', ttl)
    end
  end
  for i = 1, some and count or 0 do
    if owned[i] and ttl == '' then
      redis.call('PERSIST', KEYS[i])
    elseif owned[i] then
      redis.call('PEXPIRE', KEYS[i], ttl, 'GT')
    end
  end
end

-- Most often all locks are free and nobody waits. EXISTS counts keys of any type, a thousand in one
-- command.
local exist = 0
for first = 1, names, 1000 do
  exist = exist + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 999, names)))
end

-- All reads of locks come before the first write, because Redis does not undo writes: if a
-- lock is held or a key is of another type, the script must end before it changes anything.
for i = 1, exist > 0 and locks or 0 do
  owned[i] = redis.call('GET', KEYS[i])
  some = some or owned[i]
  local waited = not owned[i] and names > locks and redis.call('EXISTS', KEYS[locks + i]) == 1
  if waited or owned[i] and owned[i] ~= token then
    -- remaining is what is left of the holder's lease; -1 ms: the lock never expires.
    local remaining = redis.call('PTTL', KEYS[i])
    if partial then
      take(i - 1)
    elseif names > locks and owned[i] and string.sub(owned[i], 1, 6) == 'rlock:' then
      remaining = -2
    end
    return {0, remaining, 0, i}
  end
end

-- The whole set has one fence. It is above the count of every slot that the set touches, and
-- not behind the server's clock, for the reasons in include/fence.lua. The script raises every
-- counter to it, so the next fence of any of these locks is larger.
local fence, new, counts = 0, false, {}
for i = names + 1, #KEYS do
  counts[i] = redis.call('INCR', KEYS[i])
  fence = math.max(fence, counts[i])
  new = new or counts[i] == 1
end
if fence > 0 then
  local time = redis.call('TIME')
  local minimum = time[1] * 1000000 + time[2]
  if not new then
    minimum = minimum - minimum % 65536
  end
  fence = math.max(fence, minimum)
end
for i = names + 1, #KEYS do
  if counts[i] < fence then
    redis.call('SET', KEYS[i], fence)
  end
end

take(locks)
return {1, 0, fence, 0}
