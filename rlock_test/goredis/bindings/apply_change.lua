-- Applies a change that was recorded elsewhere to a copy of its key. The recorder
-- lets only commands through whose first argument is their one key.
--
-- name: ApplyChange
-- mode: write
-- KEYS[1]   copy      key
-- ARGV[1]   verb      string  such as SADD
-- ARGV[2..] arguments string  what follows the key
-- returns: none
-- allow: dynamic-command the recorder has a fixed list of commands

redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
