-- Adds a member to the one of several sets that its name picks, so that no set
-- gets too large to be handled in one go. The shards must always be given whole
-- and in the same order; a {hash tag} keeps them together.
--
-- name: ShardAdd
-- mode: write retryable
-- KEYS[1..] shards key     at least one
-- ARGV[1]   member string
-- returns: added bool, shard int

local sum = tonumber(string.sub(redis.sha1hex(ARGV[1]), 1, 8), 16)
local shard = sum % #KEYS + 1
return {redis.call('SADD', KEYS[shard], ARGV[1]), shard}
