-- Puts a member into the queue, and returns its score: since, or if that is 0 the server's clock
-- in microseconds. A new score is above all others, so the order is kept if the clock goes back
-- or stands still. The queue lasts for half a minute after the last waiter has joined or beaten:
-- what dead processes leave behind ends by itself. If it fails, it returns the error reply.
local function enqueue(queue, member, since)
  local score = since
  if score == 0 then
    local time = redis.pcall('TIME')
    if time.err then
      return time
    end
    score = time[1] * 1000000 + time[2]
    local last = redis.pcall('ZRANGE', queue, -1, -1, 'WITHSCORES')
    if last[2] then
      score = math.max(score, tonumber(last[2]) + 1)
    end
  end
  local added = redis.pcall('ZADD', queue, string.format('%.0f', score), member)
  if type(added) ~= 'number' then
    return added
  end
  local kept = redis.pcall('PEXPIRE', queue, 30000)
  if type(kept) ~= 'number' then
    redis.pcall('ZREM', queue, member) -- a queue without an expiry would stay
    return kept
  end
  return score
end
