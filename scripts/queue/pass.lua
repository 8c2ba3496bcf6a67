-- include: grant.lua
-- include: barging.lua
-- Releases a lock to the first waiter that hears of it, and returns true if there is one. If not, the
-- lock is free: false says that nobody waits, or that the server can tell nobody. One script looks at 64
-- at most, and the next heartbeat goes on: nil says that others wait, of whom nothing is known. It looks at
-- none while a free lock stays free.
local function pass(lock, queue, counter, grants, barging)
  local last = 65
  if open_for(barging) > 0 then
    last = 1
  end
  for i = 1, last do
    local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if head.err or not head[1] then
      break
    end
    if i == last then
      redis.call('DEL', lock)
      return nil
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
