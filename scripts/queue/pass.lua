-- include: grant.lua
-- include: barging.lua
-- Releases a lock to the first waiter that hears of it, and returns whether there is one; if not, the
-- lock is free. One script looks at 64 at most, and the next heartbeat goes on.
local function pass(lock, queue, counter, grants, barging)
  for _ = 1, open_for(barging) > 0 and 0 or 64 do
    local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if head.err or not head[1] then
      break
    end
    local granted = grant(lock, queue, counter, grants, head[1], head[2])
    if granted then
      return true
    elseif granted == nil then
      break
    end
  end
  redis.call('DEL', lock)
  return false
end
