-- Appends messages to a bounded queue, all or none, and tells its new length.
--
-- name: QueuePush
-- mode: write
-- KEYS[1]   queue    key
-- ARGV[1]   most     int    messages that the queue may hold
-- ARGV[2..] messages bytes
-- returns: int
-- errors: QUEUE_FULL

local room = tonumber(ARGV[1]) - redis.call('LLEN', KEYS[1])
if #ARGV - 1 > room then
  return redis.error_reply('QUEUE_FULL there is room for ' .. math.max(0, room) .. ' more')
end

-- unpack gives out at about eight thousand values, so a large batch goes in parts.
for first = 2, #ARGV, 5000 do
  redis.call('RPUSH', KEYS[1], unpack(ARGV, first, math.min(first + 4999, #ARGV)))
end
return redis.call('LLEN', KEYS[1])
