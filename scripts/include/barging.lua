-- Returns how many more milliseconds a free lock stays free although processes wait for the lock. 0 means
-- that the first waiter gets the lock now.
--
-- A lock stays free in the first barging milliseconds of each second of the server's clock. In that time,
-- callers outside the queue can take the lock, such as callers of other libraries. This is called barging.
-- The clock alone decides, so no key stores the time. A process that waits for several locks in turn finds
-- all of them open at the same time.
local function open_for(barging, now)
  local length = tonumber(barging) or 0
  if length <= 0 then
    return 0
  end
  return math.max(length - now % 1000, 0)
end
