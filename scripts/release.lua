-- Frees the locks that this token owns and leaves all others as they are. The
-- answer is how many were freed. After a lost reply, repeat it: fewer than asked
-- for then means either "lost" or "freed by the first try", which only a caller
-- that knows of the first try can tell apart.
--
-- name: Release
-- mode: write retryable
-- KEYS[1..] locks key     the locks
-- ARGV[1]   token string  owner token
-- returns: int

local token = ARGV[1]

-- Most often it is one lock, which needs no lists.
if #KEYS == 1 then
  if redis.call('GET', KEYS[1]) ~= token then
    return 0
  end
  return redis.call('DEL', KEYS[1])
end

-- All reads stand before the first write, so that a key of another type stops the
-- script while nothing has changed. A thousand keys a command: unpack() gives out at
-- about eight thousand.
local owned, count = {}, 0
for first = 1, #KEYS, 1000 do
  local owners = redis.call('MGET', unpack(KEYS, first, math.min(first + 999, #KEYS)))
  for i = 1, #owners do
    if owners[i] == token then
      count = count + 1
      owned[count] = KEYS[first + i - 1]
    elseif not owners[i] then
      redis.call('GET', KEYS[first + i - 1]) -- MGET would call a key of another type none
    end
  end
end

for first = 1, count, 1000 do
  redis.call('DEL', unpack(owned, first, math.min(first + 999, count)))
end
return count
