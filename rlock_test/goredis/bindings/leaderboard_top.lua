-- Tells the scores of the best players, and how many players there are. Order is
-- lost in a map; whoever needs it asks for LeaderboardAround.
--
-- name: LeaderboardTop
-- mode: read
-- KEYS[1] board key
-- ARGV[1] most  int  players to tell, at least 1
-- returns: scores map[string]float, players int

return {
  redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'REV', 'WITHSCORES'),
  redis.call('ZCARD', KEYS[1]),
}
