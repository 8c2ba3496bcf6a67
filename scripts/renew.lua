-- Gives locks of different owners a new lease, counted from now, each by itself:
-- those that are their token's. The answer is the positions of the others, which
-- stay as they are. A lease that is longer already stays, so that a call that was late on
-- its way cuts none. An expired lock is never created anew.
--
-- name: Renew
-- mode: write retryable
-- KEYS[1..] locks  key       the locks, at most a few thousand
-- ARGV[1]   ttl    duration  new lease of each
-- ARGV[2..] tokens string    owner token of each lock, in the order of the keys
-- returns: []int

-- MGET answers nil for a key of another type, where GET is an error that would
-- keep all others from their lease.
local owners = redis.call('MGET', unpack(KEYS))

-- PEXPIRE also works when the server is out of memory. If it is refused, then
-- for the first lock already, so that an error means that nothing has changed.
local lost = {}
for i, lock in ipairs(KEYS) do
  if owners[i] == ARGV[i + 1] then
    redis.call('PEXPIRE', lock, ARGV[1], 'GT')
  else
    lost[#lost + 1] = i
  end
end
return lost
