-- Tells the places within a distance of a point, the nearest first, and how far
-- away each is.
--
-- name: GeoNearby
-- mode: read
-- KEYS[1] places    key
-- ARGV[1] longitude float
-- ARGV[2] latitude  float
-- ARGV[3] radius    float  meters
-- ARGV[4] most      int    places to tell
-- returns: names []string, meters []float

local found = redis.call('GEOSEARCH', KEYS[1], 'FROMLONLAT', ARGV[1], ARGV[2],
  'BYRADIUS', ARGV[3], 'm', 'ASC', 'COUNT', ARGV[4], 'WITHDIST')
local names, meters = {}, {}
for i, place in ipairs(found) do
  names[i], meters[i] = place[1], place[2]
end
return {names, meters}
