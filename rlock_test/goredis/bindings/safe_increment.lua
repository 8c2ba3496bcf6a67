-- Adds to a counter that other programs may have left in any state. What is no
-- number is refused under a name of its own, instead of one of Redis's errors.
--
-- name: SafeIncrement
-- mode: write
-- KEYS[1] counter key
-- ARGV[1] by      float
-- returns: float
-- errors: NOT_A_NUMBER

local total = redis.pcall('INCRBYFLOAT', KEYS[1], ARGV[1])
if type(total) == 'table' and total.err then
  return redis.error_reply('NOT_A_NUMBER ' .. total.err)
end
return total
