-- Counts with numbers as they are sent, and stores values for ValuesFetch.
--
-- name: ValuesStore
-- mode: write
-- KEYS[1] whole    key       a count
-- KEYS[2] broken   key       a count with a fraction
-- KEYS[3] record   key
-- ARGV[1] by       int       for the first count
-- ARGV[2] part     float     for the second
-- ARGV[3] seconds  int       when the counts expire
-- ARGV[4] flag     bool
-- ARGV[5] lease    duration?
-- ARGV[6] at       time?
-- returns: whole int, broken float

local whole = redis.call('INCRBY', KEYS[1], ARGV[1])
local broken = redis.call('INCRBYFLOAT', KEYS[2], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[3], 'flag', ARGV[4], 'lease', ARGV[5], 'at', ARGV[6])
return {whole, broken}
