-- include: serve.lua
-- include: barging.lua

-- Takes from a token what the token has, and gives it to the waiters. The function reports whether the token
-- had the lock or a share of it. whole tells that the token has the whole lock.
local function free(lock, queue, waiters, holders, grants, counter, token, whole, barging)
  local time = redis.call('TIME')
  local clock = time[1] * 1000000 + time[2]
  local now = math.floor(clock / 1000)
  local s, freed = {value = false}, whole -- a grant overwrites the key, or DEL below removes it
  if not whole then
    leave(queue, waiters, token) -- first, so that serve grants nothing to this token
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
      -- The set has no live holder: only the phase is left, or also more ended leases than look removes.
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
  if not s.phase and not (whole and s.value) then -- a new holder of the whole lock sweeps later
    sweep(holders)
  end
  return freed
end
