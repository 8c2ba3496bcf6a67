-- Tells the best of a leaderboard with their scores, as a list of all values in turn.
--
-- name: BoardTop
-- mode: read
-- KEYS[1] board key
-- ARGV[1] last  int  rank of the last one, from 0
-- returns: [](member string, score float)

return redis.call('ZRANGE', KEYS[1], 0, ARGV[1], 'REV', 'WITHSCORES')
