-- Merges a guest's cart into the cart of the user who has just signed in, and
-- answers the whole. Quantities of the same article add up.
--
-- name: CartMerge
-- mode: write
-- KEYS[1] cart  key         JSON
-- ARGV[1] guest json(Cart)
-- returns: json(Cart)

local cart = cjson.decode(redis.call('GET', KEYS[1]) or '{"items":{}}')
local items = cjson.decode(ARGV[1]).items
if items == cjson.null then
  items = {} -- a nil map in Go
end
for article, quantity in pairs(items) do
  cart.items[article] = (cart.items[article] or 0) + quantity
end
local text = cjson.encode(cart)
redis.call('SET', KEYS[1], text)
return text
