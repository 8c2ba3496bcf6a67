-- Gives every lock of a set a new lease, counted from now, if this token or a former one
-- owns all of them. Otherwise nothing changes, and the answer is the position of the
-- first lock that they do not own; 0 means extended. An expired lock is never created
-- anew.
--
-- With one token a lease only grows: a lock of this token keeps its lease if that is
-- longer. So calls may overlap, arrive late or arrive twice. A lease is shortened together
-- with the token: a lock of a former token gets this token with exactly the new lease, and
-- whatever was sent with the former one has no effect from then on.
--
-- name: Extend
-- mode: write retryable
-- KEYS[1..] locks  key        the locks
-- ARGV[1]   token  string     owner token, that the locks are to have
-- ARGV[2]   ttl    duration?  new lease; absent: never expires
-- ARGV[3..] former string     tokens that the locks may have so far
-- returns: int

local token, ttl = ARGV[1], ARGV[2]

local own = {[token] = true}
for i = 3, #ARGV do
  own[ARGV[i]] = true
end

-- All reads stand before the first write: the set is extended whole or not at all.
local owners = {}
for i, lock in ipairs(KEYS) do
  owners[i] = redis.call('GET', lock)
  if not own[owners[i]] then
    return i
  end
end

-- PEXPIRE also works when the server is out of memory, and SET does behind it: after a
-- script's first write the server does not refuse the others.
for i, lock in ipairs(KEYS) do
  if ttl == '' then
    redis.call('PERSIST', lock)
    if owners[i] ~= token then
      redis.call('SET', lock, token)
    end
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
    if owners[i] ~= token then
      redis.call('SET', lock, token, 'PX', ttl)
    end
  end
end
return 0
