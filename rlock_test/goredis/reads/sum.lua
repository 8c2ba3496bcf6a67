-- Adds two numbers, and uses no key.
--
-- mode: read
-- ARGV[1] a int
-- ARGV[2] b int
-- returns: int
return ARGV[1] + ARGV[2]
