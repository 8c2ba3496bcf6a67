-- Writes what a holder says about itself beside its locks. A note is a hash with
-- the holder's token as its one field, so that it is never read as another
-- holder's, and it lasts as long as its lock does. Locks that this token does not
-- own get none. The answer is how many notes were written.
--
-- name: Note
-- mode: write retryable
-- KEYS[1..] keys  key     the locks, then their notes in the same order
-- ARGV[1]   token string  owner token
-- ARGV[2]   text  string  what the holder says
-- returns: int

local token, text = ARGV[1], ARGV[2]
local locks = #KEYS / 2

-- All reads stand before the first write.
local left = {}
for i = 1, locks do
  if redis.call('GET', KEYS[i]) == token then
    left[i] = redis.call('PTTL', KEYS[i])
  end
end

local written = 0
for i = 1, locks do
  if left[i] then
    local note = KEYS[locks + i]
    redis.call('DEL', note)
    redis.call('HSET', note, token, text)
    -- A lock without expiry may be deleted by hand, and its note must not stay for
    -- ever: it has a week.
    if left[i] < 0 then
      left[i] = 604800000
    end
    local kept = redis.pcall('PEXPIRE', note, left[i])
    if type(kept) ~= 'number' then
      redis.call('DEL', note) -- nobody would ever remove it
      return kept
    end
    written = written + 1
  end
end
return written
