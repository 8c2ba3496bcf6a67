-- Passes a held lock on to another token, with a new lease, so that it is never
-- free in between. If neither token owns it, nothing changes. Repeating the call
-- after a lost reply is safe: it confirms the next owner.
--
-- name: HandOver
-- mode: write retryable
-- KEYS[1]   lock    key        the lock
-- KEYS[2..] counter key        fence counter of the lock's slot; none: no fence
-- ARGV[1]   token   string     the owner's token
-- ARGV[2]   next    string     the next owner's token
-- ARGV[3]   ttl     duration?  lease of the next owner; absent: never expires
-- ARGV[4]   fences  int        how many fences in a row to take at most: that of the next owner, and
--                              those of whom it passes the lock on to without asking
-- returns: passed bool, fence int, fences int

local lock, counter = KEYS[1], KEYS[2]
local token, next, ttl, fences = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local owner = redis.call('GET', lock)
if owner ~= token and owner ~= next then
  return {0, 0, 0}
end

-- The first of the fences is above all numbers before, and lifted to the clock as in
-- acquire.lua. Those after it must not pass the clock, or a counter that is lost could
-- start anew below them; the first one always is taken.
local fence, taken = 0, 0
if counter then
  local last = tonumber(redis.call('GET', counter) or 0)
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  local least = micros - micros % 65536
  if last == 0 then
    least = micros
  end
  fence = math.max(last + 1, least)
  taken = math.max(1, math.min(fences, micros - fence + 1))
  redis.call('SET', counter, fence + taken - 1)
end

if owner == token and ttl == '' then
  redis.call('SET', lock, next)
elseif owner == token then
  redis.call('SET', lock, next, 'PX', ttl)
elseif ttl == '' then
  redis.call('PERSIST', lock)
else
  -- GT: a call that was late on its way must not cut a lease that has been extended
  -- since.
  redis.call('PEXPIRE', lock, ttl, 'GT')
end
return {1, fence, taken}
