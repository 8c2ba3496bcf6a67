-- Reads a session and keeps it alive for another idle time.
--
-- name: SessionTouch
-- mode: write retryable
-- KEYS[1] session key  hash of the session's fields
-- returns: fields map[string]string, ends time
-- errors: NO_SESSION

local flat = redis.call('HGETALL', KEYS[1])
if #flat == 0 then
  return redis.error_reply('NO_SESSION it has ended, or never was')
end
local session = {}
for i = 1, #flat, 2 do
  session[flat[i]] = flat[i + 1]
end
redis.call('PEXPIRE', KEYS[1], session.idle)
if session['until'] ~= '' then
  redis.call('PEXPIREAT', KEYS[1], session['until'], 'LT')
end
return {flat, redis.call('PEXPIRETIME', KEYS[1])}
