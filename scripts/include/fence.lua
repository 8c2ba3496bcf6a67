-- Returns the next fence of a counter; 0 if there is no counter. If the counter is behind the server's clock
-- (in microseconds, rounded down to a multiple of 65,536), the script raises it to the clock, because a
-- failover may have set the counter back: it must not give out a fence twice. The rounding limits these
-- writes to 16 a second. A counter that is new, because there was none or the server lost it, starts at the
-- exact clock. That is above all former fences, because the server took more than a microsecond for each of
-- them. If it fails, it returns the error reply: the user may lack a right, or the counter may be of another
-- type.
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
