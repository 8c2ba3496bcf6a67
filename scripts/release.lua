-- Frees the locks that this token holds, and leaves all others as they are. The reply is how
-- many locks it freed. A caller that lost the reply may safely send the same call again. If
-- the second reply is smaller than the number of locks, the others were lost, or the first
-- call freed them: the reply cannot tell which.
--
-- name: Release
-- mode: write retryable
-- KEYS[1..] locks key     the locks
-- ARGV[1]   token string  token of the holder
-- returns: int

local token = ARGV[1]

-- Most calls release one lock, which needs no lists.
if #KEYS == 1 then
  if redis.call('GET', KEYS[1]) ~= token then
    return 0
  end
  return redis.call('DEL', KEYS[1])
end

-- All reads come before the first write, so if a key is of another type, the script ends
-- before it changes anything. One command reads a thousand keys, because unpack() fails at
-- about eight thousand.
local owned, count = {}, 0
for first = 1, #KEYS, 1000 do
  local holders = redis.call('MGET', unpack(KEYS, first, math.min(first + 999, #KEYS)))
  for i = 1, #holders do
    if holders[i] == token then
      count = count + 1
      owned[count] = KEYS[first + i - 1]
    elseif not holders[i] then
      -- MGET answers nil for a key of another type too, but GET then fails.
      redis.call('GET', KEYS[first + i - 1])
    end
  end
end

for first = 1, count, 1000 do
  redis.call('DEL', unpack(owned, first, math.min(first + 999, count)))
end
return count
