-- Grants and withdraws rights, which are the bits of a mask, and tells which of
-- the wanted ones the user now has. What is both granted and withdrawn is gone.
--
-- name: RightsGrant
-- mode: write retryable
-- KEYS[1] rights   key  mask
-- ARGV[1] grant    int  mask, below 2^31: Lua's bit operations are signed
-- ARGV[2] withdraw int  mask
-- ARGV[3] wanted   int  mask
-- returns: has int, all bool

local mask = tonumber(redis.call('GET', KEYS[1]) or '0')
mask = bit.band(bit.bor(mask, tonumber(ARGV[1])), bit.bnot(tonumber(ARGV[2])))
redis.call('SET', KEYS[1], mask)
local has = bit.band(mask, tonumber(ARGV[3]))
return {has, has == tonumber(ARGV[3])}
