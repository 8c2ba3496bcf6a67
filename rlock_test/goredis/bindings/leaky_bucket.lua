-- Spaces requests evenly, letting a burst through ahead of schedule (GCRA). It
-- keeps one instant per client: when the next request would be due.
--
-- name: LeakyBucket
-- mode: write
-- KEYS[1] due      key       when the client's next request is due, in milliseconds
-- ARGV[1] interval duration  between two requests of a steady client
-- ARGV[2] burst    int       requests that may come early
-- returns: allowed bool, wait duration

-- include: shared/clock.lua
-- now_ms tells the server's clock in milliseconds since 1970. One clock for all
-- clients: theirs may differ by more than a window is long.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()
local due = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
local early = due - now - burst * interval
if early > 0 then
  return {0, early}
end
redis.call('SET', KEYS[1], due + interval, 'PX', due + interval - now)
return {1, 0}
