-- Takes over events that another consumer has had for too long without
-- acknowledging them. Go on with next until it is 0-0.
--
-- name: StreamClaim
-- mode: write
-- KEYS[1] stream   key
-- ARGV[1] group    string
-- ARGV[2] consumer string    who takes over
-- ARGV[3] idle     duration  how long is too long
-- ARGV[4] from     string    0-0 to start with
-- returns: next string, ids []string, fields []map[string]string

local reply = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', 10)
local ids, fields = {}, {}
for i, event in ipairs(reply[2]) do
  ids[i], fields[i] = event[1], event[2]
end
return {reply[1], ids, fields}
