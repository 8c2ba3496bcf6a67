-- include: serve.lua
-- include: barging.lua

-- Takes from a token what it has, and gives it to those who wait. It reports whether the token had the lock
-- or a share of it. whole tells that it has the whole lock.
local function free(lock, queue, waiters, holders, grants, counter, token, whole, barging)
  local time = redis.call('TIME')
  local clock = time[1] * 1000000 + time[2]
  local now = math.floor(clock / 1000)
  local s, freed = {value = false}, whole -- the key is overwritten, or deleted at the end
  if not whole then
    leave(queue, waiters, token) -- before others are served: nothing is granted to a token that gives up
    s = look(lock, holders, now)
  end
  local limit, permits = share_of(token)
  if s.phase and limit then
    local member = s.phase .. ' ' .. permits .. ' ' .. token
    local ends = redis.call('ZSCORE', holders, member)
    if ends then
      redis.call('ZREM', holders, member)
      freed = true
      local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
      -- What is left is only the phase, or also more of the dead than look removes.
      if not last[2] or last[2] ~= 'inf' and tonumber(last[2]) <= now then
        redis.call('DEL', holders)
        redis.call('DEL', lock)
        s = {value = false}
      elseif s.used then
        s.used = s.used - permits
        redis.call('ZADD', holders, string.format('%.0f', s.used), s.phase)
      end
      if s.phase then
        shorten(lock, holders, now)
      end
    end
  end
  if (not s.value or s.phase) and open_for(barging, now) == 0 then
    pcall(serve, lock, queue, waiters, holders, grants, counter, s, '', '', clock)
  end
  if whole and not s.value then
    redis.call('DEL', lock)
  end
  if not s.phase and not (whole and s.value) then -- whoever has got the whole lock does so when it is free
    sweep(holders)
  end
  return freed
end
