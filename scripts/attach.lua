-- Gives every lock of a set a new token, if it or a former one owns all of them: whatever
-- was sent with a former token has no effect from then on. The leases stay as they are.
-- Otherwise nothing changes, and the answer is the position of the first lock that they
-- do not own; 0 means attached. Repeating the call after a lost reply is safe.
--
-- name: Attach
-- mode: write retryable
-- KEYS[1..] locks  key     the locks
-- ARGV[1]   token  string  owner token, that the locks are to have
-- ARGV[2..] former string  tokens that the locks may have so far
-- returns: position int, left duration

local token = ARGV[1]

local own = {[token] = true}
for i = 2, #ARGV do
  own[ARGV[i]] = true
end

-- All reads stand before the first write: the set is attached whole or not at all.
-- left is the shortest remaining time; -1 ms: none of the locks expires.
local owners, least = {}, -1
for i, lock in ipairs(KEYS) do
  owners[i] = redis.call('GET', lock)
  if not own[owners[i]] then
    return {i, 0}
  end
  local left = redis.call('PTTL', lock)
  if left >= 0 and (least < 0 or left < least) then
    least = left
  end
end

for i, lock in ipairs(KEYS) do
  if owners[i] ~= token then
    -- PEXPIRE GT changes nothing here, but it is a write that a server out of memory
    -- takes, and after a script's first write it does not refuse SET either.
    redis.call('PEXPIRE', lock, 1, 'GT')
    redis.call('SET', lock, token, 'KEEPTTL')
  end
end
return {0, least}
