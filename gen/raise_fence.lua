-- Raises the fence counters of a set's locks to the fence of the set, if this token holds all
-- of the locks. The next fence of each lock is then larger. A counter that is as high already
-- stays as it is. If this token does not hold a lock, the script changes nothing, and the
-- reply is the position of the first such lock; 0 means raised.
--
-- name: RaiseFence
-- mode: write retryable
-- KEYS[1..] keys  key     the locks, then the fence counters of their slots
-- ARGV[1]   token string  token of the holder
-- ARGV[2]   fence int     fence of the set
-- ARGV[3]   locks int     how many of the keys are locks
-- returns: int

local token, fence, locks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- All reads come before the first write. The locks must still be this token's, because a later
-- holder may already have a fence from a counter that is below the set's fence: the earlier
-- holder would then have the larger fence.
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
