package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// corrections replace syntaxes of COMMAND DOCS. COMMAND DOCS lacks them, or gives less than the server takes,
// or gives less precise types. TestCommandsAsServersHaveThem sends calls that fit them.
var corrections = map[string]string{
	"bitop": "operation destkey:key key:key...",
	"bitfield": "key:key [{GET encoding offset}|{OVERFLOW (WRAP|SAT|FAIL)}|{SET encoding offset " +
		"value:integer}|{INCRBY encoding offset increment:integer}]...",
	"bitfield_ro":     "key:key [{GET encoding offset}]...",
	"command getkeys": "word...",
	"expire":          "key:key seconds:s [NX|XX] [GT|LT]",
	"expireat":        "key:key unix-time-seconds:unix-s [NX|XX] [GT|LT]",
	"pexpire":         "key:key milliseconds:ms [NX|XX] [GT|LT]",
	"pexpireat":       "key:key unix-time-milliseconds:unix-ms [NX|XX] [GT|LT]",
	"geoadd":          "key:key [NX|XX] [CH] {longitude:double latitude:double member}...",
	"geohash":         "key:key [member...]",
	"geopos":          "key:key [member...]",
	"restore": "key:key ttl:ms serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds:s|FREQ " +
		"frequency:integer]",
	"restore-asking": "key:key ttl:ms serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds:s|FREQ " +
		"frequency:integer]",
	"wait":       "numreplicas:integer timeout:ms",
	"xack":       "key:key group id:entry-id...",
	"xadd":       "key:key [NOMKSTREAM] [" + trimming + "] id:new-id {field value}...",
	"xautoclaim": "key:key group consumer min-idle-time:ms start:entry-id [COUNT count:integer] [JUSTID]",
	"xclaim": "key:key group consumer min-idle-time:ms id:entry-id... [IDLE ms:ms] [TIME " +
		"unix-time-milliseconds:unix-ms] [RETRYCOUNT count:integer] [FORCE] [JUSTID] [LASTID id:entry-id]",
	"xdel":          "key:key id:entry-id...",
	"xgroup create": "key:key groupname id:last-id [MKSTREAM] [ENTRIESREAD entries-read:integer]",
	"xgroup setid":  "key:key groupname id:last-id [ENTRIESREAD entries-read:integer]",
	"xpending":      "key:key group [[IDLE min-idle-time:ms] start:id end:id count:integer [consumer]]",
	"xrange":        "key:key start:id end:id [COUNT count:integer]",
	"xread":         "[COUNT count:integer] [BLOCK milliseconds:ms] STREAMS key:key... id:last-id...",
	"xreadgroup": "GROUP group consumer [COUNT count:integer] [BLOCK milliseconds:ms] [NOACK] STREAMS " +
		"key:key... {>|id:entry-id}...",
	"xrevrange": "key:key end:id start:id [COUNT count:integer]",
	"xsetid": "key:key last-id:entry-id [ENTRIESADDED entries-added:integer] [MAXDELETEDID " +
		"max-deleted-entry-id:entry-id]",
	"xtrim":            "key:key (" + trimming + ")",
	"zadd":             "key:key [NX|XX] [GT|LT] [CH] [INCR] {score:double member}...",
	"zcount":           "key:key min:bound max:bound",
	"zincrby":          "key:key increment:double member",
	"zrangebyscore":    "key:key min:bound max:bound [WITHSCORES] [LIMIT offset:integer count:integer]",
	"zremrangebyscore": "key:key min:bound max:bound",
	"zrevrangebyscore": "key:key max:bound min:bound [WITHSCORES] [LIMIT offset:integer count:integer]",
}

// trimming is the syntax that XADD and XTRIM share. LIMIT is possible after ~ only.
const trimming = "MAXLEN [=] threshold:integer|MAXLEN ~ threshold:integer [LIMIT count:integer]|MINID [=] " +
	"threshold:entry-id|MINID ~ threshold:entry-id [LIMIT count:integer]"

// syntaxes returns the syntax of each command in the notation of package command.
func syntaxes(ctx context.Context, client rueidis.Client) (map[string]string, error) {
	docs, err := client.Do(ctx, client.B().Arbitrary("COMMAND", "DOCS").Build()).AsMap()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	if err := document(docs, all); err != nil {
		return nil, err
	}
	maps.Copy(all, corrections)
	return all, nil
}

func document(docs map[string]rueidis.RedisMessage, all map[string]string) error {
	for name, message := range docs {
		fields, err := message.AsMap()
		if err != nil {
			return err
		}
		words, err := arguments(fields)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		syntax := strings.Join(words, " ")
		// COUNT and ANY may be in any order.
		syntax = strings.ReplaceAll(syntax, "[{COUNT count:integer [ANY]}]", "[COUNT count:integer] [ANY]")
		all[strings.ReplaceAll(name, "|", " ")] = syntax
		if of, found := fields["subcommands"]; found {
			sub, err := of.AsMap()
			if err != nil {
				return err
			}
			if err := document(sub, all); err != nil {
				return err
			}
		}
	}
	return nil
}

func arguments(of map[string]rueidis.RedisMessage) ([]string, error) {
	list, found := of["arguments"]
	if !found {
		return nil, nil
	}
	messages, err := list.ToArray()
	if err != nil {
		return nil, err
	}
	var words []string
	for _, message := range messages {
		fields, err := message.AsMap()
		if err != nil {
			return nil, err
		}
		word, err := argument(fields)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func argument(fields map[string]rueidis.RedisMessage) (string, error) {
	text := func(name string) string { field := fields[name]; s, _ := field.ToString(); return s }
	inner, err := arguments(fields)
	if err != nil {
		return "", err
	}
	word := ""
	switch text("type") {
	case "pure-token":
	case "oneof":
		word = "(" + strings.Join(inner, "|") + ")"
	case "block":
		word = "{" + strings.Join(inner, " ") + "}"
	default:
		word = value(strings.ReplaceAll(text("name"), "_", "-"), text("type"))
	}
	var flags []string
	if field, found := fields["flags"]; found {
		if flags, err = field.AsStrSlice(); err != nil {
			return "", err
		}
	}
	many := slices.Contains(flags, "multiple")
	token := text("token")
	repeats := slices.Contains(flags, "multiple_token")
	if many && !repeats {
		word += "..."
	}
	if token != "" {
		word = strings.TrimSpace(token + " " + word)
	}
	switch optional := slices.Contains(flags, "optional"); {
	case optional && many && repeats:
		return "[" + word + "]...", nil
	case optional:
		return "[" + word + "]", nil
	case many && repeats:
		return "{" + word + "}...", nil
	}
	return word, nil
}

// value names a value with its type. The name tells the unit of a number.
func value(name, kind string) string {
	switch {
	case name == "numkeys":
		kind = "numkeys"
	case name == "cursor": // it may be above the range of signed 64 bits
		return name
	case name == "weight":
		kind = "double"
	case kind == "integer" && name == "seconds":
		kind = "s"
	case kind == "integer" && (name == "milliseconds" || name == "ms"):
		kind = "ms"
	case kind == "unix-time" && strings.HasSuffix(name, "milliseconds"):
		kind = "unix-ms"
	case kind == "unix-time":
		kind = "unix-s"
	case kind == "double" && name == "timeout":
		kind = "timeout-s"
	case kind == "string" || kind == "pattern":
		return name
	}
	return name + ":" + kind
}
