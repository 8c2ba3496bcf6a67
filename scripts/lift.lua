-- Lifts the fence counters of a set's locks to a number or above, if this token
-- owns all of the locks: the next fence of any of them is then larger. Otherwise
-- nothing changes, and the answer is the position of the first lock that this token
-- does not own; 0 means lifted.
--
-- name: Lift
-- mode: write retryable
-- KEYS[1..] keys  key     the locks, then the fence counters of their slots
-- ARGV[1]   token string  owner token
-- ARGV[2]   fence int     the least that every counter is to stand at
-- ARGV[3]   locks int     how many of the keys are locks
-- returns: int

local token, fence, locks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- All reads stand before the first write. A lock that is not owned any more may
-- have been given a fence between the set's and its counter's: the set's would be
-- the larger one, but the older.
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
