-- Lets in those at the head of the queue who want a share that is free, up to the first who does
-- not: one that waits for the whole lock stops those behind it, and so does one that wants more
-- permits than are free. Whoever is let in is told by the message of a grant, with "share " before it:
-- it need not ask whether it has the whole lock. If the message is lost, its heartbeat finds its share.
-- own is the caller's token, which need not be told. Another that cannot be told, because it has no process,
-- has its share for two seconds at most until its heartbeat: it may be dead. One script lets in 256 at most, and the next
-- heartbeat goes on. It returns true if the server can tell nobody and the first in the queue would get
-- in: whoever asks then takes what is free, as if there were no queue.
--
-- A waiter whose process would not hear of its grant is removed. So is one that wants a share of another
-- limit, because it cannot get in beside the present holders: if it stopped those behind it and its
-- process stood still, they would wait for as long as there are holders. The message "gone <token>" has
-- its process ask. While there are holders, the answer is their limit, and ends the wait. After that the
-- waiter joins again with its old score.
--
-- It needs shared/holders.lua.
local function admit(lock, holders, queue, grants, phase, limit, now, own)
  for _ = 1, 256 do
    local head = redis.pcall('ZRANGE', queue, 0, 0)
    if head.err or not head[1] then
      return false
    end
    local lease, process, token = string.match(head[1], '^(%d+):([^:]*):(.*)$')
    local wanted, permits = share_of(token or '')
    -- Whoever has no token is no waiter, and a share of another limit cannot get in.
    local heard = token ~= nil and (not wanted or wanted == limit)
    local stops = wanted ~= limit or not fits(holders, limit, tonumber(permits))
    if heard and process ~= '' and token ~= own then
      local listening = redis.pcall('PUBSUB', 'SHARDNUMSUB', grants .. process)
      if listening.err then
        return not stops
      end
      heard = listening[2] ~= 0
    end
    if heard and stops then
      return false
    end
    local waiting = redis.pcall('ZCARD', queue)
    local removed = redis.pcall('ZREM', queue, head[1])
    if type(waiting) ~= 'number' or type(removed) ~= 'number' then
      return false
    end
    if heard then
      if process == '' and tonumber(lease) > 2000 then
        lease = '2000'
      end
      add(holders, phase, token, tonumber(permits), string.format('%.0f', now + tonumber(lease)))
      if process ~= '' and token ~= own then
        local message = 'share ' .. lease .. string.format(' %.0f %.0f %.0f ', tonumber(phase), waiting - 1, #lock) .. lock .. ' ' .. token
        redis.pcall('SPUBLISH', grants .. process, message)
      end
    elseif token and process ~= '' then
      redis.pcall('SPUBLISH', grants .. process, 'gone ' .. token)
    end
  end
  return false
end
