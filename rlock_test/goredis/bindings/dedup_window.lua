-- Tells for each of some message ids whether it is seen for the first time in
-- the window. An id that comes again does not start its window anew.
--
-- name: DedupWindow
-- mode: write
-- KEYS[1]   seen   key       sorted set of ids by the time they were seen
-- ARGV[1]   now    time
-- ARGV[2]   length duration  length of the window
-- ARGV[3..] ids    string
-- returns: []bool

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - ARGV[2])
local fresh = {}
for i = 3, #ARGV do
  fresh[#fresh + 1] = redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return fresh
