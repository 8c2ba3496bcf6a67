-- Opens a session, replacing what was there under its id.
--
-- name: SessionOpen
-- mode: write retryable
-- KEYS[1] session key        hash of the session's fields
-- ARGV[1] user    string
-- ARGV[2] at      time       when it was opened
-- ARGV[3] idle    duration   it ends after this time without SessionTouch
-- ARGV[4] until   time?      it ends then in any case; absent: it may live for ever
-- returns: none

redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'user', ARGV[1], 'opened', ARGV[2], 'idle', ARGV[3], 'until', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[4] ~= '' then
  -- LT: the limit only ever makes it shorter.
  redis.call('PEXPIREAT', KEYS[1], ARGV[4], 'LT')
end
