-- Returns the next fence of a counter, or 0 if there is no counter. If a command fails, the function returns
-- the error reply. The user may lack a right, or the counter may be of another type.
--
-- A failover may set the counter back, but the counter must not give out a fence twice. So the function
-- compares the counter with the server's clock in microseconds, rounded down to a multiple of 65,536. If the
-- counter is behind, the function raises the counter to the clock. The rounding limits these writes to 16 a
-- second.
--
-- A counter that is new, or that the server lost, starts at the exact clock. The clock is above all former
-- fences, because the server took more than a microsecond for each fence.
local function next_fence(counter, clock)
  if not counter then
    return 0
  end
  local fence = redis.pcall('INCR', counter)
  if type(fence) ~= 'number' then
    return fence
  end
  local minimum = clock - clock % 65536
  if fence == 1 then
    minimum = clock
  end
  if fence < minimum then
    fence = minimum
    local raised = redis.pcall('SET', counter, string.format('%.0f', fence))
    if raised.err then
      return raised
    end
  end
  return fence
end
