-- Tells listeners of a channel that something has happened, and counts it. A sharded
-- channel is told by SPUBLISH, any other by PUBLISH.
--
-- name: Announce
-- mode: write
-- KEYS[1] count   key      how often it happened
-- KEYS[2] channel channel  in KEYS, so that a cluster has it where the count is
-- ARGV[1] how     enum(publish | spublish)
-- ARGV[2] _                the sender, which no listener asked for
-- ARGV[3] text    string
-- ARGV[4] copy    channel? another channel that is told, too
-- returns: int

redis.call(ARGV[1], KEYS[2], ARGV[3])
if ARGV[4] ~= '' then
  redis.call('PUBLISH', ARGV[4], ARGV[3])
end
redis.call('PUBLISH', 'announcements[*]', ARGV[3])
return redis.call('INCR', KEYS[1])
