-- Counts one hit in several fields of a hash and tells the new counts.
--
-- name: CountersBump
-- mode: write
-- KEYS[1]   hits   key
-- ARGV[1..] fields string
-- returns: map[string]int

local function bump(hash, field)
  return redis.call('HINCRBY', hash, field, 1)
end

local flat = {}
for _, field in ipairs(ARGV) do
  table.insert(flat, field)
  table.insert(flat, bump(KEYS[1], field))
end
return flat
