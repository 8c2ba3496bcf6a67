-- Raises the fence counters of a set's locks to the fence of the set, if the token has all locks.
--
-- The next fence of each lock is then larger. A counter that is as high already stays as it is. The reply 0
-- means that all counters are high enough. If the token does not have a lock, the script changes nothing,
-- and the reply is the position of the first lock that the token does not have.
--
-- A caller that lost the reply may safely send the same call again.
--
-- name: RaiseFence
-- mode: write retryable
-- KEYS[1..] keys  key     the locks, then the fence counters of their slots
-- ARGV[1]   token string  token of the holder
-- ARGV[2]   fence int     the fence of the set
-- ARGV[3]   locks int     the number of locks among the keys
-- returns: int

local token, fence, locks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- All reads come before the first write. The token must still have the locks. A later holder may already have
-- a fence from a counter that is below the set's fence. The earlier holder would then have the larger fence.
for i = 1, locks do
  if redis.call('GET', KEYS[i]) ~= token then
    return i
  end
end
local below = {}
for i = locks + 1, #KEYS do
  if tonumber(redis.call('GET', KEYS[i]) or 0) < fence then
    below[#below + 1] = KEYS[i]
  end
end

for _, counter in ipairs(below) do
  redis.call('SET', counter, ARGV[2])
end
return 0
