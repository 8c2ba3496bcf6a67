-- Returns for how many milliseconds from now on a free lock stays free although processes wait for it; 0: the
-- first of them gets it. A lock does so for the first barging milliseconds of each second of the server's
-- clock. In that time callers that stand in no queue, such as those of other libraries, can take it, which is
-- called barging. The clock alone says when, so no key has to remember it, and the locks that a process waits
-- for one after the other are open at the same time.
local function open_for(barging, now)
  local length = tonumber(barging) or 0
  if length <= 0 then
    return 0
  end
  return math.max(length - now % 1000, 0)
end
