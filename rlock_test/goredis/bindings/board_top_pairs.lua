-- Tells the best of a leaderboard with their scores, as a list of pairs, which is how
-- a server answers in the newer version of the protocol.
--
-- name: BoardTopPairs
-- mode: read
-- KEYS[1] board key
-- ARGV[1] last  int  rank of the last one, from 0
-- returns: [](member string, score float)

redis.setresp(3)
return redis.call('ZRANGE', KEYS[1], 0, ARGV[1], 'REV', 'WITHSCORES')
