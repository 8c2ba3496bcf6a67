-- Removes the notes that the holder with this token has written beside its locks,
-- and leaves those of other holders. The answer is how many were removed.
--
-- name: Unnote
-- mode: write retryable
-- KEYS[1..] notes key     the locks' notes
-- ARGV[1]   token string  owner token
-- returns: int

local removed = 0
for _, note in ipairs(KEYS) do
  removed = removed + redis.call('HDEL', note, ARGV[1])
end
return removed
