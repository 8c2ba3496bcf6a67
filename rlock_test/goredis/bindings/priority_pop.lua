-- Takes the item with the highest priority; nil means that there is none.
--
-- name: PriorityPop
-- mode: write
-- KEYS[1] queue key
-- returns: item string?, priority float?

local top = redis.call('ZPOPMAX', KEYS[1])
return {top[1] or false, top[2] or false}
