-- Tells, for every lock of a set and all at the same instant, the holder's
-- token (nil: free) and remaining time (-1 ms: never expires, -2 ms: free).
--
-- name: Inspect
-- mode: read
-- KEYS[1..] locks key  the locks
-- returns: owners []string?, left []duration

local owners, left = {}, {}
for i, lock in ipairs(KEYS) do
  -- GET answers false for a free lock, which keeps its place in the list.
  owners[i] = redis.call('GET', lock)
  left[i] = redis.call('PTTL', lock)
end
return {owners, left}
