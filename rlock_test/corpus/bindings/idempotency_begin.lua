-- Starts an operation that must have effect once, whatever is sent twice. The
-- first caller gets started and does the work. Others get the stored receipt, or
-- nothing while the first one is still at it.
--
-- name: IdempotencyBegin
-- mode: write retryable
-- KEYS[1] operation key       hash of its owner and receipt
-- ARGV[1] owner     string    who does the work, unique per try
-- ARGV[2] give_up   duration  another may start when the owner has not finished by then
-- returns: started bool, receipt json(Receipt)?

local state = redis.call('HMGET', KEYS[1], 'owner', 'receipt')
if state[2] then
  return {0, state[2]}
end
if state[1] and state[1] ~= ARGV[1] then
  return {0, false}
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, false}
