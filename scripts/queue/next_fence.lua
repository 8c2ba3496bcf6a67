-- Returns the next fence of the counter, by the rules that acquire.lua explains; 0 if there is
-- no counter. If it fails, it returns the error reply, because a script that passes a lock on
-- must not end halfway: the user may lack a right, or the counter may be of another type. now is the server's
-- clock in microseconds, if the script knows it.
local function next_fence(counter, now)
  if not counter then
    return 0
  end
  local fence = redis.pcall('INCR', counter)
  if type(fence) ~= 'number' then
    return fence
  end
  local clock = now
  if not clock then
    local time = redis.pcall('TIME')
    if time.err then
      return time
    end
    clock = time[1] * 1000000 + time[2]
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
