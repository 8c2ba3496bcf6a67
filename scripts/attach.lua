-- Gives every lock of a set a new token, if the new token or a former one holds each of
-- them. From then on, calls with a former token change nothing. The leases stay as they are.
-- Otherwise the script changes nothing, and the reply has the position of the first lock
-- that none of these tokens holds; 0 means attached. A caller that lost the reply may safely
-- send the same call again.
--
-- name: Attach
-- mode: write retryable
-- KEYS[1..] locks  key     the locks
-- ARGV[1]   token  string  the new token
-- ARGV[2..] former string  tokens that may hold the locks now
-- returns: position int, remaining duration

local token = ARGV[1]

local accepted = {[token] = true}
for i = 2, #ARGV do
  accepted[ARGV[i]] = true
end

-- All reads come before the first write, so that the script attaches the whole set or
-- nothing. remaining is what is left of the shortest lease; -1 ms: no lock expires.
local holders, remaining = {}, -1
for i, lock in ipairs(KEYS) do
  local holder = redis.call('GET', lock)
  if not accepted[holder] then
    return {i, 0}
  end
  holders[i] = holder
  local lease = redis.call('PTTL', lock)
  if lease >= 0 and (remaining < 0 or lease < remaining) then
    remaining = lease
  end
end

for i, lock in ipairs(KEYS) do
  if holders[i] ~= token then
    -- PEXPIRE GT 1 changes nothing. It comes first because a server that is out of memory
    -- allows it, and allows any command after the first write of a script, so SET too.
    redis.call('PEXPIRE', lock, 1, 'GT')
    redis.call('SET', lock, token, 'KEEPTTL')
  end
end
return {0, remaining}
