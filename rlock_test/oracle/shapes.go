package oracle

// A shape is a command with the things that it takes. These are types of keys, or "channel" for a
// channel. "v" is a value, "f" a field, "n" a number, "d" a duration argument in milliseconds.
// Every other word stands for itself.
type shape struct {
	name  string
	args  string
	write bool
}

var shapes = []shape{
	{"GET", "string", false}, {"EXISTS", "string", false}, {"STRLEN", "string", false},
	{"PTTL", "string", false}, {"TTL", "hash", false},
	{"TYPE", "zset", false}, {"MGET", "string string", false}, {"GETRANGE", "string 0 -1", false},
	{"BITCOUNT", "string", false},
	{"HGET", "hash f", false}, {"HGETALL", "hash", false}, {"HLEN", "hash", false}, {"HMGET", "hash f f", false},
	{"HEXISTS", "hash f", false},
	{"LLEN", "list", false}, {"LRANGE", "list 0 -1", false}, {"LINDEX", "list 0", false},
	{"SCARD", "set", false}, {"SMEMBERS", "set", false}, {"SISMEMBER", "set v", false},
	{"SINTER", "set set", false}, {"SDIFF", "set set", false},
	{"ZCARD", "zset", false}, {"ZRANGE", "zset 0 -1", false}, {"ZSCORE", "zset v", false},
	{"ZRANGEBYSCORE", "zset -inf +inf", false}, {"ZUNION", "c2 zset zset", false},
	{"XLEN", "stream", false}, {"XRANGE", "stream - +", false}, {"XREAD", "COUNT 1 STREAMS stream 0", false},
	{"OBJECT", "ENCODING string", false},
	{"SORT_RO", "list", false}, {"TIME", "", false}, {"PFCOUNT", "string", true},
	{"LCS", "string string", false}, {"SINTERCARD", "c2 set set", false},

	{"SET", "string v", true}, {"SET", "string v PX d", true}, {"SET", "string v XX", true},
	{"SETNX", "string v", true}, {"PSETEX", "string d v", true},
	{"INCR", "string", true}, {"INCRBY", "string n", true}, {"APPEND", "string v", true},
	{"GETDEL", "string", true}, {"GETSET", "string v", true}, {"GETEX", "string PERSIST", true},
	{"DEL", "string", true}, {"DEL", "string list", true}, {"UNLINK", "hash", true},
	{"PEXPIRE", "string d", true}, {"PERSIST", "string", true},
	{"HSET", "hash f v", true}, {"HSETNX", "hash f v", true}, {"HDEL", "hash f", true},
	{"HINCRBY", "hash f n", true},
	{"LPUSH", "list v", true}, {"RPUSH", "list v v", true}, {"LPOP", "list", true}, {"LTRIM", "list 0 5", true},
	{"LMOVE", "list list LEFT RIGHT", true}, {"RPOPLPUSH", "list list", true},
	{"SADD", "set v", true}, {"SREM", "set v", true}, {"SPOP", "set", true}, {"SMOVE", "set set v", true},
	{"SUNIONSTORE", "set set set", true},
	{"ZADD", "zset n v", true}, {"ZREM", "zset v", true}, {"ZINCRBY", "zset n v", true},
	{"ZPOPMIN", "zset", true}, {"ZUNIONSTORE", "zset c2 zset zset", true},
	{"ZRANGESTORE", "zset zset 0 -1", true},
	{"RENAME", "string string", true}, {"COPY", "string string REPLACE", true},
	{"BITOP", "AND string string string", true}, {"SETRANGE", "string 0 v", true},
	{"XADD", "stream * f v", true}, {"XDEL", "stream 0-1", true}, {"XTRIM", "stream MAXLEN 10", true},
	{"SORT", "list STORE list", true}, {"SETBIT", "string 1 1", true}, {"PFADD", "string v", true},
	{"PUBLISH", "channel v", true}, {"SPUBLISH", "channel v", true}, {"PUBLISH", "channel v", true},
	{"DECR", "string", true}, {"RPOP", "list", true}, {"ZPOPMAX", "zset", true},
	{"HKEYS", "hash", false}, {"HVALS", "hash", false}, {"HSTRLEN", "hash f", false}, {"ZRANK", "zset v", false},
	{"ZRANGE", "zset 0 -1 WITHSCORES", false}, {"EXPIRETIME", "string", false},
	{"GEOADD", "zset 1 2 v", true}, {"BITFIELD", "string SET u8 0 1", true},
	{"XAUTOCLAIM", "stream g c 0 0", true}, {"HINCRBYFLOAT", "hash f n", true},
	{"LMPOP", "c2 list list LEFT", true},
}

// lasting are commands that take a duration in another unit than milliseconds.
var lasting = []shape{
	{"EXPIRE", "string d", true}, {"SETEX", "string d v", true}, {"SET", "string v EX d", true},
	{"GETEX", "string EX d", true}, {"EXPIRE", "hash d", true},
}

// strange are commands that a script may use only with a waiver, or not at all.
var strange = []shape{
	{"SELECT", "5", true}, {"SCAN", "0", false}, {"KEYS", "*", false}, {"FLUSHALL", "", true},
	{"RANDOMKEY", "", false}, {"NOSUCHCOMMAND", "string", false},
	{"GET", "string string", false}, {"INCR", "", true}, {"SORT", "list BY outside* GET outside*", true},
	{"WAIT", "0 0", false}, {"SUBSCRIBE", "x", false},
	{"SWAPDB", "0 1", true}, {"MOVE", "string 1", true}, {"COPY", "string string DB 1", true},
	{"EVAL", "x 0", true}, {"CONFIG", "GET x", false}, {"MIGRATE", "h 1 string 0 10", true},
}
