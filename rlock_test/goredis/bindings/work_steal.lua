-- Moves half of the jobs of the busiest queue to an idle one, and tells which
-- queue that was; 0 means that none has more than one job.
--
-- name: WorkSteal
-- mode: write
-- KEYS[1]   idle   key
-- KEYS[2..] queues key
-- returns: queue int, moved int

local busiest, most = 0, 1
for i = 2, #KEYS do
  local length = redis.call('LLEN', KEYS[i])
  if length > most then
    busiest, most = i - 1, length
  end
end
if busiest == 0 then
  return {0, 0}
end
local victim = KEYS[busiest + 1]
local half = math.floor(most / 2)
for _ = 1, half do
  -- From its tail, which its own workers reach last.
  redis.call('LMOVE', victim, KEYS[1], 'RIGHT', 'LEFT')
end
return {busiest, half}
