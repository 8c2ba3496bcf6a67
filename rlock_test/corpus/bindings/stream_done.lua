-- Acknowledges events and deletes those that were pending, so that the stream
-- holds only what is yet to be done.
--
-- name: StreamDone
-- mode: write
-- KEYS[1]   stream key
-- ARGV[1]   group  string
-- ARGV[2..] ids    string
-- returns: int

local done = {}
for i = 2, #ARGV do
  if redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) == 1 then
    done[#done + 1] = ARGV[i]
  end
end
if #done > 0 then
  redis.call('XDEL', KEYS[1], unpack(done))
end
return #done
