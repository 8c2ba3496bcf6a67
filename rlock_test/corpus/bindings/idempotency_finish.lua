-- Stores the receipt of an operation for everybody who asks for it again.
--
-- name: IdempotencyFinish
-- mode: write retryable
-- KEYS[1] operation key            hash of its owner and receipt
-- ARGV[1] owner     string
-- ARGV[2] receipt   json(Receipt)
-- ARGV[3] keep      duration       how long the receipt is remembered
-- returns: ok
-- errors: NOT_OWNER

if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return {err = 'NOT_OWNER another try owns the operation, or it has expired'}
end
redis.call('HSET', KEYS[1], 'receipt', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {ok = 'OK'}
