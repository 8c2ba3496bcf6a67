#!lua flags=no-writes
-- Tells what is in stock of several articles, all at the same instant; nil for an
-- article that is not known.
--
-- name: StockReport
-- mode: read
-- KEYS[1..] stock key  number in stock, one key per article
-- returns: counts []int?, known int

local counts, known = redis.call('MGET', unpack(KEYS)), 0
for _, count in ipairs(counts) do
  if count then
    known = known + 1
  end
end
return {counts, known}
