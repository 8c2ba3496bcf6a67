-- Sets several values with one lease, or none of them if one is there already.
--
-- name: SetMany
-- mode: write
-- KEYS[1..] values  key        at least one
-- ARGV[1]   keep    duration?  absent: for ever
-- ARGV[2..] content bytes      one for each key
-- returns: bool

if redis.call('EXISTS', unpack(KEYS)) > 0 then
  return false
end
for i, value in ipairs(KEYS) do
  redis.call('SET', value, ARGV[i + 1])
  if ARGV[1] ~= '' then
    redis.call('PEXPIRE', value, ARGV[1])
  end
end
return true
