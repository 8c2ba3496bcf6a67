-- Gives each of many locks a new lease, counted from now, if the lock's own token holds it.
-- The reply has the positions of the other locks, which stay as they are. The script never
-- takes a lock whose lease has ended.
--
-- It differs from extend.lua in three ways. Each lock has a token of its own. A lock that is
-- lost does not keep the others from their lease, whereas extend.lua extends all locks of a
-- set or none. A lease only gets longer, because no token changes: a lock keeps its lease if
-- that ends later than the new one.
--
-- name: ExtendMany
-- mode: write retryable
-- KEYS[1..] locks  key       the locks, a few thousand at most
-- ARGV[1]   ttl    duration  new lease of each lock
-- ARGV[2..] tokens string    token of each lock, in the order of the locks
-- returns: []int

-- MGET answers nil for a key of another type. GET would fail, and so keep all other locks
-- from their lease.
local holders = redis.call('MGET', unpack(KEYS))

-- A server that is out of memory allows PEXPIRE. If the server refuses it for another reason,
-- it refuses the first one, so an error means that nothing has changed.
local lost = {}
for i, lock in ipairs(KEYS) do
  if holders[i] == ARGV[i + 1] then
    redis.call('PEXPIRE', lock, ARGV[1], 'GT')
  else
    lost[#lost + 1] = i
  end
end
return lost
