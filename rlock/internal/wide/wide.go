// Package wide lets miniredis run scripts with whole integers where an int has 32 bits.
//
// miniredis counts in int. On GOARCH=386 and arm it would cut the integers of a script and its replies. A
// fence, which has about 50 bits, would become another number. miniredis would also refuse a deadline.
package wide

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Needed reports whether an int has 32 bits here. Otherwise there is nothing to do.
const Needed = strconv.IntSize == 32

// mark begins the status reply by which a script returns an integer that miniredis would cut.
const mark = "\x00wide integer "

// A wide script is its own text between prologue and epilogue. The prologue has no line break, so that
// errors name the lines of the script. The script counts beyond 32 bits with GET and SET. It replies an
// integer beyond 32 bits as a status, and Reply turns the status into the integer.
const (
	prologue = `do ` +
		`local counters = {INCR = 1, DECR = -1, INCRBY = 1, DECRBY = -1} ` +
		// a deadline has more than 32 bits, but the time until then mostly does not
		`local function relative(call, command, by, rest) ` +
		`local function left(deadline) local time = call('TIME') ` +
		`return string.format('%.0f', tonumber(deadline) - time[1] * 1000 - math.floor(time[2] / 1000)) end ` +
		`local name = type(command) == 'string' and string.upper(command) ` +
		`if name == 'PEXPIREAT' and (tonumber(by) or 0) >= 2^31 then return 'PEXPIRE', left(by), rest end ` +
		`if name == 'SET' then for i = 1, #rest - 1 do ` +
		`if rest[i] == 'PXAT' and (tonumber(rest[i + 1]) or 0) >= 2^31 then rest[i], rest[i + 1] = 'PX', left(rest[i + 1]) end end end ` +
		`return command, by, rest end ` +
		`local function counting(call) return function(command, key, by, ...) ` +
		`local rest local sign = type(command) == 'string' and key and counters[string.upper(command)] ` +
		`if sign then local value = call('GET', key) ` +
		`if type(value) == 'table' then return value end ` + // the error of a pcall
		`local now, step = tonumber(value or 0), tonumber(by or 1) ` +
		`local sum = now and step and now + sign * step ` +
		`if sum and (math.abs(now) >= 2^31 or math.abs(sum) >= 2^31) then ` +
		`local set = call('SET', key, string.format('%.0f', sum), 'KEEPTTL') ` +
		`return set.err and set or sum end end ` +
		`command, by, rest = relative(call, command, by, {...}) ` +
		`if by == nil then if key == nil then return call(command) end return call(command, key) end ` +
		`return call(command, key, by, unpack(rest)) end end ` +
		`redis.call, redis.pcall = counting(redis.call), counting(redis.pcall) end ` +
		`local function reply(value) ` +
		`if type(value) == 'number' and (value >= 2^31 or value <= -2^31 - 1) then ` +
		`return {ok = '\0wide integer ' .. string.format('%.0f', value > 0 and math.floor(value) or math.ceil(value))} end ` +
		`if type(value) == 'table' and not value.err and not value.ok then ` +
		`local i = 1 while value[i] ~= nil do value[i] = reply(value[i]) i = i + 1 end end ` +
		`return value end ` +
		`return reply((function(...) `
	epilogue = "\nend)(...))"
)

var marked = regexp.MustCompile(`\+` + mark + `(-?[0-9]+)\r\n`)

// Scripts has the scripts that the clients of one server have sent, by digest. With them, EVALSHA runs the
// wide script. Several goroutines may call its methods at once.
type Scripts struct{ texts sync.Map }

// Command returns what to run in place of a command. The name of the command is in capitals. The caller
// must pass the reply through [Reply].
func (s *Scripts) Command(argv []string) []string {
	if !Needed || len(argv) < 2 {
		return argv
	}
	switch argv[0] {
	case "EVAL", "EVAL_RO":
		s.learn(argv[1])
		return wide(argv[0], argv[1], argv[2:])
	case "EVALSHA", "EVALSHA_RO":
		if text, ok := s.texts.Load(strings.ToLower(argv[1])); ok {
			return wide(strings.Replace(argv[0], "SHA", "", 1), text.(string), argv[2:])
		}
	case "SCRIPT":
		switch strings.ToUpper(argv[1]) {
		case "LOAD":
			if len(argv) == 3 {
				s.learn(argv[2])
			}
		case "FLUSH":
			s.texts.Clear()
		}
	}
	return argv
}

func (s *Scripts) learn(text string) {
	digest := sha1.Sum([]byte(text))
	s.texts.Store(hex.EncodeToString(digest[:]), text)
}

func wide(command, text string, rest []string) []string {
	return append([]string{command, prologue + text + epilogue}, rest...)
}

// Reply returns the reply of a command that may have run scripts. It restores the integers.
func Reply(reply string) string {
	return marked.ReplaceAllString(reply, ":$1\r\n")
}
