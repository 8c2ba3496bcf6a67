-- Takes all locks of a set, or none of them.
--
-- The script stops at the first lock that it cannot take. The reply then has the position of that lock as
-- held, and the rest of the holder's lease as remaining. The script changes nothing, unless the caller asks
-- for a part of the set. It then takes the locks before that position, without a fence.
--
-- The script does not take a free lock that has a queue, because no caller overtakes a queue. The reply
-- then has -2 ms as remaining. The caller must call Wait, which gives the lock to the first waiter.
--
-- For a lock that has shares, remaining is also -2 ms, if the queues are among the keys and the caller asks
-- for the whole set. The leases of the shares may end before the key does, and only Wait looks at them.
--
-- A caller that lost the reply may safely send the same call again. The script confirms the locks that this
-- token already has, and never shortens their leases.
--
-- name: AcquireAll
-- mode: write retryable
-- KEYS[1..] keys    key        the locks; then their queues, which may all be absent; then the fence counters
--     of their slots; without counters the fence is 0
-- ARGV[1]   token   string     the token of this acquisition, which no other acquisition has
-- ARGV[2]   ttl     duration?  the lease of each lock; absent: the leases never end
-- ARGV[3]   locks   int        the number of locks among the keys
-- ARGV[4]   partial bool       whether to take a part: the locks before the first lock that is not available
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

-- Takes or confirms the first count locks, with one command for each lock. MSET sets no lease, and unpack()
-- fails at about eight thousand values. GT never shortens a lease, because this call may be late. The script
-- takes locks before it confirms locks: a server that is out of memory must refuse SET, and after a PEXPIRE
-- it allows every command.
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

-- Most often all locks are free and nobody waits. EXISTS counts keys of any type. One command counts a
-- thousand keys.
local exist = 0
for first = 1, names, 1000 do
  exist = exist + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 999, names)))
end

-- All reads of locks come before the first write, because Redis does not undo writes. If another token has a
-- lock, or if a key is of another type, the script ends before it changes anything.
for i = 1, exist > 0 and locks or 0 do
  owned[i] = redis.call('GET', KEYS[i])
  some = some or owned[i]
  local waited = not owned[i] and names > locks and redis.call('EXISTS', KEYS[locks + i]) == 1
  if waited or owned[i] and owned[i] ~= token then
    -- remaining is the rest of the holder's lease; -1 ms: the lease never ends.
    local remaining = redis.call('PTTL', KEYS[i])
    if partial then
      take(i - 1)
    elseif names > locks and owned[i] and string.sub(owned[i], 1, 6) == 'rlock:' then
      remaining = -2
    end
    return {0, remaining, 0, i}
  end
end

-- The whole set has one fence. The fence is above the counter of each slot that the set touches. It is not
-- behind the server's clock, for the reasons in include/fence.lua. The script raises each counter to the
-- fence, so the next fence of each of these locks is larger.
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
