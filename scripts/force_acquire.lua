-- Takes a lock, whoever holds it. The former holder has lost the lock, as if its key had been
-- deleted. Those who wait in the queue of the lock stay there, in their order: a release passes
-- the lock on to the first of them. A caller that lost the reply must not send the call again,
-- because a late copy would take the lock from whoever has it by then.
--
-- name: ForceAcquire
-- mode: write
-- KEYS[1]   lock    key        the lock
-- KEYS[2..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     token of this acquisition, which no other has
-- ARGV[2]   ttl     duration?  lease; absent: the lock never expires
-- returns: int

-- include: queue/next_fence.lua

local lock, counter = KEYS[1], KEYS[2]
local token, ttl = ARGV[1], ARGV[2]

-- GET fails with WRONGTYPE if the key is of another type. SET would destroy what is no lock.
redis.call('GET', lock)
local fence = next_fence(counter)
if type(fence) ~= 'number' then
  return fence
end
if ttl == '' then
  redis.call('SET', lock, token)
else
  redis.call('SET', lock, token, 'PX', ttl)
end
return fence
