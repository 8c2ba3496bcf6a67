-- Reads the holder of every lock of a set, all at the same instant: the holder's token (nil:
-- the lock is free) and the remaining time of its lease (-1 ms: the lock never expires, -2 ms:
-- the lock is free).
--
-- name: Inspect
-- mode: read
-- KEYS[1..] locks key  the locks
-- returns: holders []string?, remaining []duration

local holders, remaining = {}, {}
for i, lock in ipairs(KEYS) do
  -- GET answers false, not nil, for a free lock, so the lock keeps its place in the list.
  holders[i] = redis.call('GET', lock)
  remaining[i] = redis.call('PTTL', lock)
end
return {holders, remaining}
