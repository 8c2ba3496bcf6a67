-- Reads what ValuesStore has stored.
--
-- name: ValuesFetch
-- mode: read
-- KEYS[1] record key
-- returns: flag bool, lease duration?, at time?

return redis.call('HMGET', KEYS[1], 'flag', 'lease', 'at')
