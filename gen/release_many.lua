-- Gives up many locks for which nobody waits: those of a set, which one token has, or locks of which each has
-- a token of its own. The reply has 1 for each lock that is given up, and 0 for the others, which stay as
-- they are: the token does not have the lock, others wait for it, or the server has refused to free it. The
-- caller then sends Release, which knows what to do. So no lock depends on another.
--
-- A lock that is named twice is given up once. A caller that lost the reply may send the same call again: it
-- gets 0 for the locks that it has given up.
--
-- name: ReleaseMany
-- mode: write
-- KEYS[1..] keys   key     the locks; then their queues, or nothing: nobody waits in one
-- ARGV[1]   locks  int     how many of the keys are locks
-- ARGV[2..] tokens string  token of each lock, or one of all
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

-- One command is for a thousand keys, because unpack() fails at about eight thousand. MGET answers nil for a
-- key of another type, which no token equals.
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

-- Mostly the tokens have all locks, and nobody waits: then there is nothing to sort out.
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

-- One DEL frees a thousand. If it frees fewer, a lock is named twice, and the first one who has it has given
-- it up.
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
