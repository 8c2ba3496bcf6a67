-- Takes quantities of several articles out of stock, all or none, and tells what
-- is left of each.
--
-- name: InventoryReserve
-- mode: write
-- KEYS[1..] stock  key  number in stock, one key per article
-- ARGV[1..] wanted int  quantity of each article, in the same order
-- returns: []int
-- errors: NO_STOCK, BAD_ORDER

if #KEYS ~= #ARGV then
  return redis.error_reply('BAD_ORDER every article needs a quantity')
end

-- All checks stand before the first write, as Redis does not roll back.
for i, article in ipairs(KEYS) do
  local wanted = tonumber(ARGV[i])
  if wanted < 1 then
    return redis.error_reply('BAD_ORDER quantity ' .. i .. ' is below 1')
  end
  if tonumber(redis.call('GET', article) or '0') < wanted then
    return redis.error_reply('NO_STOCK of article ' .. i)
  end
end

local left = {}
for i, article in ipairs(KEYS) do
  left[i] = redis.call('DECRBY', article, ARGV[i])
end
return left
