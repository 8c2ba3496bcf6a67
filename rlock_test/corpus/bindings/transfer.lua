-- Moves an amount, in the smallest unit of the currency, between two accounts.
--
-- name: Transfer
-- mode: write
-- KEYS[1] from   key  balance
-- KEYS[2] to     key  balance
-- ARGV[1] amount int  at least 1
-- returns: from_balance int, to_balance int
-- errors: NO_ACCOUNT, NO_FUNDS, BAD_AMOUNT

local amount = tonumber(ARGV[1])
local balance = redis.call('GET', KEYS[1])
if amount < 1 then
  return redis.error_reply('BAD_AMOUNT it must be positive')
elseif not balance or redis.call('EXISTS', KEYS[2]) == 0 then
  return redis.error_reply('NO_ACCOUNT one of the accounts does not exist')
elseif tonumber(balance) < amount then
  return redis.error_reply('NO_FUNDS there are ' .. balance)
end
return {redis.call('DECRBY', KEYS[1], amount), redis.call('INCRBY', KEYS[2], amount)}
