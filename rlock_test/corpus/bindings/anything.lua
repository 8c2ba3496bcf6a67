-- Tells what a key holds, whatever it is.
--
-- name: Anything
-- mode: read
-- KEYS[1] any key
-- returns: raw

local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'string' then
  return redis.call('GET', KEYS[1])
elseif kind == 'hash' then
  return redis.call('HGETALL', KEYS[1])
elseif kind == 'list' then
  return redis.call('LLEN', KEYS[1])
end
return false
