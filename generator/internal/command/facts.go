package command

// row has the facts that no server tells about a command.
type row struct {
	Reply   string // as parseReplies reads it; empty: unknown
	Effects Effect
}

// Effect is a set of things that a command does or depends on, apart from the keys in its words.
type Effect uint8

// The effects of a command.
const (
	// The command changes nothing. It counts as a write, because the server sends it to replicas.
	Replicates Effect = 1 << iota
	Manages           // changes the server, and no data
	Sweeps            // reaches keys that are not in its words, or another database
	// The answer changes with time, or with other clients. No write of the key tells a cache.
	Ages
)

// Effects returns the effects of the command.
func (c Command) Effects() Effect { return facts[c.Name].Effects }

// facts are the rows. A missing reply is unknown.
var facts = map[string]row{
	"append": {"int", 0}, "asking": {"", Manages}, "bitcount": {"int", 0}, "bitfield": {"[int?]", 0},
	"bitfield_ro": {"[int]", 0},
	"bitop":       {"int", 0}, "bitpos": {"int", 0}, "client id": {"int", 0}, "config get": {"map text", 0},
	"copy": {"bit", 0}, "dbsize": {"int", 0}, "decr": {"int", 0}, "decrby": {"int", 0},
	"del":  {"1 key: bit; int", 0},
	"dump": {"label?", 0}, "echo": {"sent", 0}, "exists": {"1 key: bit; int", 0},
	"expire": {"bit", 0}, "expireat": {"bit", 0}, "expiretime": {"unix-s", 0},
	"flushall": {"ok", Sweeps}, "flushdb": {"ok", Sweeps},
	"geoadd": {"int", 0}, "geodist": {"real?", 0}, "geohash": {"[label?]", 0}, "geopos": {"[(float float)?]", 0},
	"georadius":            {"STORE, STOREDIST: int; " + places, 0},
	"georadius_ro":         {places, 0},
	"georadiusbymember":    {"STORE, STOREDIST: int; " + places, 0},
	"georadiusbymember_ro": {places, 0},
	"geosearch":            {places, 0},
	"geosearchstore":       {"int", 0},
	"get":                  {"text?", 0}, "getbit": {"bit", 0}, "getdel": {"text?", 0}, "getex": {"text?", 0},
	"getrange": {"blank", 0}, "getset": {"text?", 0},
	"hdel": {"1 field: bit; int", 0}, "hexists": {"bit", 0}, "hget": {"text?", 0}, "hgetall": {"map text", 0},
	"hincrby": {"int", 0}, "hincrbyfloat": {"real", 0}, "hkeys": {"[text]", 0}, "hlen": {"int", 0},
	"hmget": {"[text?]", 0},
	"hmset": {"ok", 0}, "hrandfield": {"WITHVALUES: scored text; count: [text]; text?", 0},
	"hscan": {"(whole flat text)", 0}, "hset": {"1 field: bit; int", 0}, "hsetnx": {"bit", 0},
	"hstrlen": {"int", 0},
	"hvals":   {"[text]", 0}, "incr": {"int", 0}, "incrby": {"int", 0}, "incrbyfloat": {"real", 0},
	"info": {"verbatim", 0},
	"keys": {"[text]", Sweeps}, "lastsave": {"unix-s", 0}, "lindex": {"text?", 0}, "linsert": {"int", 0},
	"llen":  {"int", 0},
	"lmove": {"text?", 0}, "lmpop": {"(text [text])?", 0}, "lpop": {"count: [text]?; text?", 0},
	"lpos":  {"COUNT: [int]; int?", 0},
	"lpush": {"int", 0}, "lpushx": {"int", 0}, "lrange": {"[text]", 0}, "lrem": {"int", 0}, "lset": {"ok", 0},
	"ltrim":        {"ok", 0},
	"memory purge": {"ok", Manages}, "memory usage": {"int?", Ages}, "mget": {"[text?]", 0},
	"move": {"bit", Sweeps},
	"mset": {"ok", 0}, "msetnx": {"bit", 0},
	"object encoding": {"label?", 0}, "object freq": {"int?", Ages}, "object idletime": {"s?", Ages},
	"object refcount": {"int?", 0},
	"persist":         {"bit", 0}, "pexpire": {"bit", 0}, "pexpireat": {"bit", 0}, "pexpiretime": {"unix-ms", 0},
	"pfadd":   {"bit", 0},
	"pfcount": {"int", Replicates}, "pfmerge": {"ok", 0}, "ping": {"message: sent; status", 0},
	"psetex": {"ok", 0},
	"pttl":   {"ms", Ages}, "publish": {"int", Replicates}, "randomkey": {"text?", Sweeps},
	"readonly": {"", Manages}, "readwrite": {"", Manages}, "rename": {"ok", 0}, "renamenx": {"bit", 0},
	"restore": {"ok", 0},
	"rpop":    {"count: [text]?; text?", 0}, "rpoplpush": {"text?", 0}, "rpush": {"int", 0},
	"rpushx": {"int", 0},
	"sadd":   {"1 member: bit; int", 0}, "scan": {"(whole [text])", Sweeps}, "scard": {"int", 0},
	"script exists": {"[bit]", 0},
	"sdiff":         {"{text}", 0}, "sdiffstore": {"int", 0}, "select": {"ok", Sweeps},
	"set": {"GET: text?; NX, XX: ok?; ok", 0}, "setbit": {"bit", 0}, "setex": {"ok", 0}, "setnx": {"bit", 0},
	"setrange": {"int", 0},
	"sinter":   {"{text}", 0}, "sintercard": {"int", 0}, "sinterstore": {"int", 0}, "sismember": {"bit", 0},
	"slowlog reset": {"", Manages}, "smembers": {"{text}", 0}, "smismember": {"[bit]", 0}, "smove": {"bit", 0},
	"sort": {"STORE: int; GET: [text?]; [text]", 0}, "sort_ro": {"GET: [text?]; [text]", 0},
	"spop": {"count: {text}; text?", 0}, "spublish": {"int", Replicates},
	"srandmember": {"count: [text]; text?", 0},
	"srem":        {"1 member: bit; int", 0}, "sscan": {"(whole [text])", 0}, "strlen": {"int", 0},
	"substr": {"blank", 0},
	"sunion": {"{text}", 0}, "sunionstore": {"int", 0}, "swapdb": {"ok", Sweeps},
	"time": {"(unix-s-text us-text)", 0}, "touch": {"1 key: bit; int", 0}, "ttl": {"s", Ages},
	"type":   {"status", 0},
	"unlink": {"1 key: bit; int", 0}, "wait": {"int", 0},
	"xack": {"1 id: bit; int", 0}, "xadd": {"NOMKSTREAM: label?; label", 0},
	"xautoclaim": {"JUSTID: (label [label] [label]); (label " + entries + " [label])", 0},
	"xclaim":     {"JUSTID: [label]; " + entries, 0},
	"xdel":       {"1 id: bit; int", 0}, "xgroup create": {"ok", 0}, "xgroup createconsumer": {"int", 0},
	"xgroup delconsumer": {"int", 0},
	"xgroup destroy":     {"int", 0}, "xgroup setid": {"ok", 0},
	"xinfo consumers": {"", Ages}, "xinfo groups": {"", Ages}, "xinfo stream": {"", Ages}, "xlen": {"int", 0},
	"xpending": {"start: [(label text ms int)]; (int label? label? [(text whole)]?)", Ages},
	"xrange":   {entries, 0}, "xread": {"streams " + entries, 0},
	"xreadgroup": {"id: streams [(label flat text?)]; streams " + entries, 0},
	"xrevrange":  {entries, 0}, "xsetid": {"ok", 0}, "xtrim": {"int", 0},
	"zadd":  {"INCR: score?; 1 score: bit; int", 0},
	"zcard": {"int", 0}, "zcount": {"int", 0}, "zdiff": {"WITHSCORES: scored score; [text]", 0},
	"zdiffstore": {"int", 0},
	"zincrby":    {"score", 0}, "zinter": {"WITHSCORES: scored score; [text]", 0}, "zintercard": {"int", 0},
	"zinterstore": {"int", 0},
	"zlexcount":   {"int", 0}, "zmpop": {"(text [(text score)])?", 0}, "zmscore": {"[score?]", 0},
	"zpopmax": {"count: scored score; one score", 0}, "zpopmin": {"count: scored score; one score", 0},
	"zrandmember": {"WITHSCORES: scored score; count: [text]; text?", 0},
	"zrange":      {"WITHSCORES: scored score; [text]", 0}, "zrangebylex": {"[text]", 0},
	"zrangebyscore": {"WITHSCORES: scored score; [text]", 0}, "zrangestore": {"int", 0}, "zrank": {"int?", 0},
	"zrem": {"1 member: bit; int", 0}, "zremrangebylex": {"int", 0}, "zremrangebyrank": {"int", 0},
	"zremrangebyscore": {"int", 0},
	"zrevrange":        {"WITHSCORES: scored score; [text]", 0}, "zrevrangebylex": {"[text]", 0},
	"zrevrangebyscore": {"WITHSCORES: scored score; [text]", 0}, "zrevrank": {"int?", 0},
	"zscan": {"(whole flat decimal)", 0}, "zscore": {"score?", 0},
	"zunion": {"WITHSCORES: scored score; [text]", 0}, "zunionstore": {"int", 0},

	"cluster addslots": {"", Manages}, "cluster addslotsrange": {"", Manages},
	"cluster bumpepoch": {"", Manages},
	"cluster delslots":  {"", Manages}, "cluster delslotsrange": {"", Manages},
	"cluster failover":   {"", Manages},
	"cluster flushslots": {"", Manages}, "cluster forget": {"", Manages}, "cluster getkeysinslot": {"", Sweeps},
	"cluster meet": {"", Manages}, "cluster replicate": {"", Manages}, "cluster saveconfig": {"", Manages},
	"cluster set-config-epoch": {"", Manages}, "cluster setslot": {"", Manages},
}

// exclusive are keywords that exclude each other, in addition to the alternatives in the syntax.
var exclusive = map[string][][2]string{
	"zadd":   {{"NX", "GT"}, {"NX", "LT"}},
	"expire": {{"NX", "GT"}, {"NX", "LT"}}, "pexpire": {{"NX", "GT"}, {"NX", "LT"}},
	"expireat": {{"NX", "GT"}, {"NX", "LT"}}, "pexpireat": {{"NX", "GT"}, {"NX", "LT"}},
	"zrange": {{"BYLEX", "WITHSCORES"}},
}

// needed are keywords that need one of the other keywords.
var needed = map[string]map[string][]string{
	"zrange": {"LIMIT": {"BYSCORE", "BYLEX"}}, "zrangestore": {"LIMIT": {"BYSCORE", "BYLEX"}},
	"geosearch": {"ANY": {"COUNT"}}, "geosearchstore": {"ANY": {"COUNT"}},
	"georadius": {"ANY": {"COUNT"}}, "georadius_ro": {"ANY": {"COUNT"}},
	"georadiusbymember": {"ANY": {"COUNT"}}, "georadiusbymember_ro": {"ANY": {"COUNT"}},
}

// Exclusive returns the keywords that exclude each other.
func (c Command) Exclusive() [][2]string { return exclusive[c.Name] }

// Needed returns the keywords that need one of the other keywords.
func (c Command) Needed() map[string][]string { return needed[c.Name] }

const (
	entries = "[(label flat text)]"
	places  = "WITHDIST, WITHHASH, WITHCOORD: [(text WITHDIST=real WITHHASH=int WITHCOORD=(float float))]; " +
		"[text]"
)
