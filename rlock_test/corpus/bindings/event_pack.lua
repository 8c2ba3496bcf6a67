-- Appends an event to a compact history, which keeps MessagePack, and answers the
-- history as JSON, the oldest event first.
--
-- name: EventPack
-- mode: write
-- KEYS[1] history key     MessagePack of a list of {kind, milliseconds}
-- ARGV[1] kind    string
-- ARGV[2] at      time
-- ARGV[3] most    int     events to keep
-- returns: []json(Event)

local packed = redis.call('GET', KEYS[1])
local history = packed and cmsgpack.unpack(packed) or {}
table.insert(history, {ARGV[1], tonumber(ARGV[2])})
while #history > tonumber(ARGV[3]) do
  table.remove(history, 1)
end
redis.call('SET', KEYS[1], cmsgpack.pack(history))

local events = {}
for i, event in ipairs(history) do
  events[i] = cjson.encode({kind = event[1], at = event[2]})
end
return events
