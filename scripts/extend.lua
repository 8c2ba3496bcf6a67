-- Gives every lock of a set a new lease, counted from now, if this token owns
-- all of them. Otherwise nothing changes, and the answer is the position of the
-- first lock that this token does not own; 0 means extended. An expired lock is
-- never created anew.
--
-- name: Extend
-- mode: write retryable
-- KEYS[1..] locks key        the locks
-- ARGV[1]   token string     owner token
-- ARGV[2]   ttl   duration?  new lease; absent: never expires
-- returns: int

local token, ttl = ARGV[1], ARGV[2]

-- All reads stand before the first write: the set is extended whole or not at all.
for i, lock in ipairs(KEYS) do
  if redis.call('GET', lock) ~= token then
    return i
  end
end

-- PEXPIRE also works when the server is out of memory, where SET is refused.
for _, lock in ipairs(KEYS) do
  if ttl == '' then
    redis.call('PERSIST', lock)
  else
    redis.call('PEXPIRE', lock, ttl)
  end
end
return 0
