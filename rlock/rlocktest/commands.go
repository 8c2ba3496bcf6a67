package rlocktest

import (
	"slices"
	"strconv"
	"strings"
)

// keysOf returns the keys among the arguments of a command. It returns none for commands that neither read
// nor write the values of their keys, such as WATCH.
func keysOf(argv []string) []string {
	cmd, args := argv[0], argv[1:]
	switch cmd {
	case "AUTH", "CLIENT", "CLUSTER", "COMMAND", "DBSIZE", "DISCARD", "ECHO", "EXEC",
		"FLUSHALL", "FLUSHDB", "HELLO", "INFO", "KEYS", "MEMORY", "MULTI", "OBJECT",
		"PING", "PSUBSCRIBE", "PUBLISH", "PUBSUB", "PUNSUBSCRIBE", "QUIT", "RANDOMKEY",
		"SCAN", "SCRIPT", "SELECT", "SPUBLISH", "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE", "SWAPDB", "TIME",
		"UNSUBSCRIBE",
		"UNWATCH", "WAIT", "WATCH", "XINFO":
		return nil
	case "DEL", "EXISTS", "MGET", "PFCOUNT", "PFMERGE", "RENAME", "RENAMENX", "RPOPLPUSH",
		"SDIFF", "SDIFFSTORE", "SINTER", "SINTERSTORE", "SUNION", "SUNIONSTORE", "TOUCH", "UNLINK":
		return args
	case "BLPOP", "BRPOP", "BZPOPMAX", "BZPOPMIN":
		return args[:max(len(args)-1, 0)]
	case "BLMOVE", "BRPOPLPUSH", "COPY", "LMOVE", "SMOVE":
		return args[:min(len(args), 2)]
	case "BITOP", "XGROUP":
		return from(args, 1)
	case "MSET", "MSETNX":
		return everyOther(args)
	case "LMPOP", "SINTERCARD", "ZDIFF", "ZINTER", "ZMPOP", "ZUNION":
		return counted(args)
	case "BLMPOP", "BZMPOP", "EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO":
		return counted(from(args, 1))
	case "ZINTERSTORE", "ZUNIONSTORE":
		return append(counted(from(args, 1)), args[:min(len(args), 1)]...)
	case "XREAD", "XREADGROUP":
		streams := from(args, 1+slices.IndexFunc(args,
			func(a string) bool { return strings.EqualFold(a, "STREAMS") }))
		return streams[:len(streams)/2]
	case "GEORADIUS", "GEORADIUSBYMEMBER":
		return append(stored(args), args[:min(len(args), 1)]...)
	default:
		return args[:min(len(args), 1)]
	}
}

// from is args[n:], also if there are too few arguments.
func from(args []string, n int) []string {
	return args[min(n, len(args)):]
}

func everyOther(args []string) []string {
	var keys []string
	for i := 0; i < len(args); i += 2 {
		keys = append(keys, args[i])
	}
	return keys
}

// counted returns the keys that follow their number.
func counted(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 {
		return nil
	}
	return slices.Clone(args[1:min(1+n, len(args))])
}

// stored returns the keys that follow STORE and STOREDIST.
func stored(args []string) []string {
	var keys []string
	for i, a := range args[:max(len(args)-1, 0)] {
		if strings.EqualFold(a, "STORE") || strings.EqualFold(a, "STOREDIST") {
			keys = append(keys, args[i+1])
		}
	}
	return keys
}

func isScript(argv []string) bool {
	switch argv[0] {
	case "EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO":
		return true
	}
	return false
}

// mayBlock reports whether a command may wait for other commands. None of these commands sets the lease of a
// key.
func mayBlock(argv []string) bool {
	switch argv[0] {
	case "BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN",
		"WAIT", "XREAD", "XREADGROUP":
		return true
	}
	return false
}

func isFlush(argv []string) bool {
	switch argv[0] {
	case "FLUSHALL", "FLUSHDB", "SWAPDB":
		return true
	}
	return false
}

// isConditional reports whether the reply of a write shows that the write changed nothing. None of these
// commands blocks or keeps its peer.
func isConditional(argv []string) bool {
	switch argv[0] {
	case "GETDEL", "GETEX", "LMPOP", "LPOP", "RPOP", "RPOPLPUSH", "LMOVE", "SET",
		"SPOP", "XADD", "ZADD", "ZMPOP", "ZPOPMAX", "ZPOPMIN":
		return true
	}
	return zeroIsNoop(argv[0])
}

// changed reports whether a write with this reply may have changed its keys.
func changed(argv []string, reply string) bool {
	switch {
	case strings.HasPrefix(reply, "-"):
		return false
	case reply == ":0\r\n":
		return !zeroIsNoop(argv[0])
	case reply == "*0\r\n":
		return false
	case reply == "$-1\r\n", reply == "*-1\r\n", reply == "_\r\n":
		// With GET the reply is the old value, if there was one.
		return argv[0] == "GETSET" ||
			argv[0] == "SET" && slices.ContainsFunc(from(argv, 3),
				func(a string) bool { return strings.EqualFold(a, "GET") })
	default:
		return true
	}
}

// zeroIsNoop reports whether a command that replies 0 changed nothing.
func zeroIsNoop(cmd string) bool {
	switch cmd {
	case "COPY", "DEL", "DELEX", "EXPIRE", "EXPIREAT", "HDEL", "HSETNX", "LPUSHX", "LREM", "MOVE",
		"MSETNX", "PERSIST", "PEXPIRE", "PEXPIREAT", "PFADD", "RENAMENX", "RPUSHX", "SADD", "SETNX",
		"SMOVE", "SREM", "UNLINK", "XACK", "XDEL", "XTRIM", "ZREM", "ZREMRANGEBYLEX",
		"ZREMRANGEBYRANK", "ZREMRANGEBYSCORE":
		return true
	}
	return false
}
