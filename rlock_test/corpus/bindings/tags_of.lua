-- Reads the tags of several articles. Those without tags are left out.
--
-- name: TagsOf
-- mode: read
-- KEYS[1..] articles key
-- returns: map[string][]string

local flat = {}
for _, article in ipairs(KEYS) do
  local tags = redis.call('SMEMBERS', article)
  if #tags > 0 then
    table.sort(tags)
    flat[#flat + 1] = article
    flat[#flat + 1] = tags
  end
end
return flat
