-- Notes that the token of a waiter sent a call. ahead is the number of waiters before it. The first five
-- waiters send a heartbeat once a second, and the waiters behind them send fewer. Each may miss three.
local function heard(waiters, token, ahead, lease, process, now)
  local beat = 2000
  if process ~= '' then
    beat = math.min(500 * math.max(4 + ahead, 8), 60000)
  end
  local asked = lease == '' and '10000' or lease
  local at = string.format('%.0f', now)
  redis.call('HSET', waiters, token, at .. ' ' .. beat .. ' ' .. asked .. ' ' .. process)
end

local function last_on(queue, waiters)
  redis.call('PEXPIRE', queue, 30000)
  redis.call('PEXPIRE', waiters, 30000)
end
