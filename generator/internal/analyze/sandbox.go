package analyze

import (
	"math"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// globals are the names that Redis scripts may use, from the allow lists of the server's sandbox. Redis 7.0
// lacks os, which newer servers have for os.clock. It also lacks server, which is Valkey's name for redis.
var globals = map[string]bool{
	"KEYS": true, "ARGV": true, "redis": true,
	"cjson": true, "cmsgpack": true, "bit": true, "struct": true,
	"math": true, "string": true, "table": true, "coroutine": true,
	"assert": true, "collectgarbage": true, "error": true, "gcinfo": true,
	"getmetatable": true, "ipairs": true, "load": true, "loadstring": true,
	"next": true, "pairs": true, "pcall": true, "rawequal": true, "rawget": true,
	"rawset": true, "select": true, "setmetatable": true, "tonumber": true,
	"tostring": true, "type": true, "unpack": true, "xpcall": true,
	"_G": true, "_VERSION": true,
}

// members are the members of the libraries. The list has those of newer servers too.
var members = map[string][]string{
	"redis": strings.Fields("LOG_DEBUG LOG_NOTICE LOG_VERBOSE LOG_WARNING REDIS_VERSION " +
		"REDIS_VERSION_NUM REPL_ALL REPL_AOF REPL_NONE REPL_REPLICA REPL_SLAVE SERVER_NAME " +
		"SERVER_VERSION SERVER_VERSION_NUM VALKEY_VERSION VALKEY_VERSION_NUM acl_check_cmd breakpoint " +
		"call debug error_reply log pcall replicate_commands set_repl setresp sha1hex status_reply"),
	"string": strings.Fields(
		"byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper"),
	"table": strings.Fields("concat foreach foreachi getn insert maxn remove setn sort"),
	"math": strings.Fields("abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp " +
		"log log10 max min mod modf pi pow rad random randomseed sin sinh sqrt tan tanh"),
	"cjson": strings.Fields("_NAME _VERSION decode decode_array_with_array_mt decode_invalid_numbers " +
		"decode_max_depth encode encode_invalid_numbers encode_keep_buffer encode_max_depth " +
		"encode_number_precision encode_sparse_array new null"),
	"cmsgpack": strings.Fields("_COPYRIGHT _DESCRIPTION _NAME _VERSION pack unpack unpack_limit unpack_one"),
	"bit":      strings.Fields("arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex"),
	"struct":   strings.Fields("pack size unpack"),
}

// evasive are the globals that let a script run or reach code that its text does not show.
var evasive = map[string]bool{"load": true, "loadstring": true, "_G": true, "coroutine": true}

// constants are the numbers among the members of redis. They may differ between servers.
var constants = map[string]bool{
	"redis.LOG_DEBUG": true, "redis.LOG_NOTICE": true, "redis.LOG_VERBOSE": true, "redis.LOG_WARNING": true,
	"redis.REDIS_VERSION_NUM": true, "redis.SERVER_VERSION_NUM": true, "redis.VALKEY_VERSION_NUM": true,
}

// uneven are the members that some servers lack.
var uneven = map[string]bool{
	"redis.SERVER_NAME": true, "redis.SERVER_VERSION": true, "redis.SERVER_VERSION_NUM": true,
	"redis.VALKEY_VERSION": true, "redis.VALKEY_VERSION_NUM": true, "cjson.decode_array_with_array_mt": true,
}

// replication maps names to the values of redis.set_repl: 1 is the log of the server, 2 are its replicas.
var replication = map[string]float64{
	"redis.REPL_NONE": 0, "redis.REPL_AOF": 1, "redis.REPL_REPLICA": 2, "redis.REPL_SLAVE": 2,
	"redis.REPL_ALL": 3,
}

// member returns the member of a library with a name.
func (a *analyzer) member(n ast.Expr, library Builtin, key Value) Value {
	list, known := members[library.Name]
	if !known {
		return Value{} // a function has no members
	}
	name, isConstant := key.Str()
	if !isConstant {
		var all Value
		for _, name := range list {
			all = Join(all, builtin(library.Name, name))
		}
		return Join(all, vNil)
	}
	if !slices.Contains(list, name) {
		a.misuse(n, library.Name+" has no "+name+" in Redis scripts; mend its spelling, or declare a local "+
			"function of that name")
		return Of(Unknown{Pos: a.script.Pos(n), Why: library.Name + " has no " + name, Found: true})
	}
	return builtin(library.Name, name)
}

// builtin returns a member of a library. If some servers lack the member, it may be nil.
func builtin(library, name string) Value {
	v := memberOf(library, name)
	if uneven[library+"."+name] {
		v = Join(v, vNil)
	}
	return v
}

func memberOf(library, name string) Value {
	full := library + "." + name
	switch full {
	case "redis.call":
		return Of(Command{})
	case "redis.pcall":
		return Of(Command{Protected: true})
	case "string.gfind": // one function has both names
		full = "string.gmatch"
	case "math.mod":
		full = "math.fmod"
	case "math.pi":
		return Of(Num{F: math.Pi})
	case "math.huge":
		return Of(Number{Class: Fraction, Undefined: true})
	}
	if f, known := replication[full]; known {
		return Of(Num{F: f})
	}
	if constants[full] {
		return Of(Number{Class: Integer})
	}
	if strings.HasPrefix(name, "_") || strings.HasSuffix(full, "_VERSION") || full == "redis.SERVER_NAME" {
		return Of(Text{Class: Wording})
	}
	return Of(Builtin{full})
}
