-- Gives every lock of a set a new lease, counted from now, if this token or a former one
-- holds each of them. Otherwise the script changes nothing, and the reply is the position of
-- the first lock that none of these tokens holds; 0 means extended. The script never takes
-- a lock whose lease has ended. For locks that are no set, see extend_many.lua.
--
-- A lock of this token keeps its lease if that ends later than the new one, so calls with one
-- token may overlap, arrive late or arrive twice. To shorten a lease, the caller changes the
-- token: a lock of a former token gets this token and exactly the new lease. From then on,
-- calls with the former token change nothing.
--
-- name: Extend
-- mode: write retryable
-- KEYS[1..] locks  key        the locks
-- ARGV[1]   token  string     the token that the locks have, or are to have from now on
-- ARGV[2]   ttl    duration?  new lease; absent: the locks never expire
-- ARGV[3..] former string     other tokens that may hold the locks now
-- returns: int

local token, ttl = ARGV[1], ARGV[2]

local accepted = {[token] = true}
for i = 3, #ARGV do
  accepted[ARGV[i]] = true
end

-- All reads come before the first write, so that the script extends the whole set or
-- nothing.
local holders = {}
for i, lock in ipairs(KEYS) do
  local holder = redis.call('GET', lock)
  if not accepted[holder] then
    return i
  end
  holders[i] = holder
end

-- PEXPIRE and PERSIST come first because a server that is out of memory allows them, and
-- allows any command after the first write of a script, so SET too.
for i, lock in ipairs(KEYS) do
  if ttl == '' then
    redis.call('PERSIST', lock)
    if holders[i] ~= token then
      redis.call('SET', lock, token)
    end
  else
    redis.call('PEXPIRE', lock, ttl, 'GT')
    if holders[i] ~= token then
      redis.call('SET', lock, token, 'PX', ttl)
    end
  end
end
return 0
