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

-- All reads stand before the first write, so that a key of another type stops
-- the script while nothing has changed.
local owned = {}
for _, lock in ipairs(KEYS) do
  if redis.call('GET', lock) == token then
    owned[#owned + 1] = lock
  end
end

for _, lock in ipairs(owned) do
  redis.call('DEL', lock)
end
return #owned
