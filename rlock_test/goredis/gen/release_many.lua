-- Gives up many locks that have no queue: the locks of a set, or independent locks with their own tokens.
--
-- The reply has 1 for each lock that the script gives up, and 0 for each lock that stays as it is. A lock
-- stays if its token does not have the lock, if others wait for the lock, or if the server refuses to free
-- the lock. The caller then calls Release for it. No lock depends on another lock.
--
-- The script gives up a lock once, even if the call names the lock twice. A caller that lost the reply may
-- send the same call again. It gets 0 for the locks that it has given up.
--
-- name: ReleaseMany
-- mode: write
-- KEYS[1..] keys   key     the locks; then their queues, which may all be absent
-- ARGV[1]   locks  int     the number of locks among the keys
-- ARGV[2..] tokens string  the token of each lock, or one token for all
-- returns: []int

local n, replies = tonumber(ARGV[1]), {}
if n == 1 and #KEYS == 1 then
  if redis.call('GET', KEYS[1]) == ARGV[2] then
    return {redis.call('DEL', KEYS[1])}
  end
  return {0}
end
if not n or n < 1 or n > #KEYS then
  return redis.error_reply('ERR the number of locks does not fit the keys')
end

-- One command takes a thousand keys, because unpack() fails at about eight thousand. For a key of another
-- type MGET replies nil, which no token equals.
local values, waited = {}, false
for first = 1, n, 1000 do
  local last = math.min(first + 999, n)
  local some = redis.call('MGET', unpack(KEYS, first, last))
  if n <= 1000 then
    values = some
  else
    for _, value in ipairs(some) do
      values[#values + 1] = value
    end
  end
  waited = waited or #KEYS > n and redis.call('EXISTS', unpack(KEYS, n + first, n + last)) > 0
end

-- Most often the tokens have all locks and nobody waits. Then DEL takes the keys as they are.
local all = not waited
for i = 1, n do
  all = all and values[i] == (ARGV[i + 1] or ARGV[2])
end
local held, count = {}, all and n or 0
for i = 1, n do
  local freed = 1
  if not all then
    if values[i] == (ARGV[i + 1] or ARGV[2]) and (not waited or redis.call('EXISTS', KEYS[n + i]) == 0) then
      count = count + 1
      held[count] = KEYS[i]
    else
      freed = 0
    end
  end
  replies[i] = freed
end

-- One DEL frees a thousand locks. If DEL frees fewer, the call may name a lock twice, or the server refused a
-- DEL. The code below then finds the locks that are free, and gives each of them to its first entry.
local deleted = 0
for first = 1, count, 1000 do
  local some = redis.pcall('DEL', unpack(all and KEYS or held, first, math.min(first + 999, count)))
  if type(some) == 'number' then
    deleted = deleted + some
  end
end
if deleted == count then
  return replies
end
local once, seen = {}, {}
for i = 1, n do
  local lock, freed = KEYS[i], 0
  if replies[i] == 1 and not seen[lock] and redis.call('EXISTS', lock) == 0 then
    freed = 1
    seen[lock] = true
  end
  once[i] = freed
end
return once
