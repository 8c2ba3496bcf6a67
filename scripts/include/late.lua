-- A command without an answer may still arrive. So each that takes, joins or shortens can name the last
-- millisecond of the server's clock at which it may do so; without one it may at any time. After it, the
-- script changes nothing and confirms nothing, and its error has the clock. Returns that error, or nil and
-- what it has read of the clock, in microseconds; nil: it had no need to.
local function too_late(not_after)
  if not_after == '' or not_after == nil then
    return nil, nil
  end
  local time = redis.call('TIME')
  local clock = time[1] * 1000000 + time[2]
  local now = math.floor(clock / 1000)
  if now <= tonumber(not_after) then
    return nil, clock
  end
  return redis.error_reply('LATE ' .. string.format('%.0f', now)), nil
end
