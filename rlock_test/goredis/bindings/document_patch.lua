-- Sets the given fields of a JSON document, and removes those that are null. It
-- answers the new document. Lua cannot tell an empty list from an empty object: both
-- come out as {}.
--
-- name: DocumentPatch
-- mode: write retryable
-- KEYS[1] document key
-- ARGV[1] patch    json  an object
-- returns: json

local document = cjson.decode(redis.call('GET', KEYS[1]) or '{}')
for field, content in pairs(cjson.decode(ARGV[1])) do
  if content == cjson.null then
    document[field] = nil
  else
    document[field] = content
  end
end
local text = cjson.encode(document)
redis.call('SET', KEYS[1], text)
return text
