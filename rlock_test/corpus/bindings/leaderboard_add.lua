-- Adds to a player's score and tells the new score and rank.
--
-- name: LeaderboardAdd
-- mode: write
-- KEYS[1] board  key
-- ARGV[1] player string
-- ARGV[2] points float
-- returns: score float, rank int

local score = redis.call('ZINCRBY', KEYS[1], ARGV[2], ARGV[1])
-- The first one has rank 1, as people count.
return {score, redis.call('ZREVRANK', KEYS[1], ARGV[1]) + 1}
