-- Appends an event to a stream of bounded length, and makes the consumer group
-- on the first use.
--
-- name: StreamAdd
-- mode: write
-- KEYS[1] stream key
-- ARGV[1] group  string
-- ARGV[2] most   int     events that the stream keeps, or somewhat more
-- ARGV[3] kind   string
-- ARGV[4] body   bytes
-- returns: id string

local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if made.err and not string.find(made.err, '^BUSYGROUP') then
  return made
end
-- ~: whole nodes of the stream are cut off, which is much cheaper.
return {redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'kind', ARGV[3], 'body', ARGV[4])}
