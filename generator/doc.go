// Generator reads Redis Lua scripts with typed headers, proves things about them,
// and writes Go calls for them around rueidis.
//
//	generator [-scripts DIR]… [-out DIR] [-package NAME] [-redis ADDR] [-v]
//	generator [-scripts DIR]… [-out DIR] -check
//	generator [-scripts DIR]… -audit [-json]
//
// It reads every *.lua file of the directories, by default scripts, and writes the
// package in -out, by default gen. It leaves out files whose name starts with a dot,
// because editors keep such files. In a module of yours:
//
//	go get -tool github.com/rlock-go/toolkit/generator
//
//	//go:generate go tool github.com/rlock-go/toolkit/generator -scripts ../lua -out .
//
// -check writes nothing and prints a unified diff of what is out of date, files of
// removed scripts included. -audit prints what each script is and touches. -redis has
// a running server compile each script as well, and turns its complaints into
// findings; it is host:port or a redis:// URL. -v says what is written and why.
//
// With a finding about any script, nothing is written: every finding is printed as
// path:line:col: message, sorted, one for each cause, with the other lines that have
// it. A file that cannot be read is such a finding, so that one run tells everything.
// The exit code is 0 when all is well, 1 with findings or generated files that are out
// of date, 2 when the generator was called wrongly or a file or server failed it.
//
// # Header
//
// The comment that opens a file is its header. Its lines are directives or prose;
// prose becomes the doc comment of the Go method.
//
//	-- Moves a job to its worker's list and tells listeners.
//	--
//	-- name: TakeJob
//	-- mode: write
//	-- KEYS[1]   queue  key       the waiting jobs
//	-- KEYS[2]   mine   key       the worker's list
//	-- KEYS[3..] copies key       none or more; a variadic entry must be the last
//	-- ARGV[1]   how    enum(publish|spublish)
//	-- ARGV[2]   _                what was the worker's name is not used any more
//	-- ARGV[3]   news   channel   where listeners are told
//	-- ARGV[4]   keep   duration? for how long the list is kept; absent: for ever
//	-- returns: (id string, waiting int)?
//
//	local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
//	if not id then
//	  return false
//	end
//	for i = 3, #KEYS do
//	  redis.call('LPUSH', KEYS[i], id)
//	end
//	redis.call(ARGV[1], ARGV[3], id)
//	if ARGV[4] ~= '' then
//	  redis.call('PEXPIRE', KEYS[2], ARGV[4])
//	end
//	return {id, redis.call('LLEN', KEYS[1])}
//
// KEYS[n] and ARGV[n] entries have a name, a type and a text. The names become
// fields of one Go struct. A line behind an entry that is indented by three or
// more spaces goes on with its text. A place of ARGV that the script does not use
// has the name _ and no type; the call sends an empty text there.
//
// name: is the Go identifier, by default the file's name in CamelCase.
//
// mode: says how the script may be called.
//
//	write            it changes data; a call is sent once
//	write retryable  it changes data and is safe to repeat; a lost call is sent again
//	read             it only reads, which is proved; calls go to the primary
//	read cached      it reads its one key and nothing else, which is proved; there
//	                 is a call through the client-side cache, which sends a bare GET
//	                 where return redis.call('GET', KEYS[1]) is the whole script
//
// returns: is none, for a script that ends without a value; ok, for the status OK; a
// type; or names with types, for which the script returns a table of as many values in
// that order.
//
// errors: lists the words with which the script's error replies begin. Each becomes
// a Go sentinel that errors.Is finds, however the server decorates the reply; here,
// errors.Is(err, ErrNoStock):
//
//	-- mode: write
//	-- KEYS[1] stock key
//	-- returns: int
//	-- errors: NO_STOCK, FROZEN
//	local left = redis.call('DECR', KEYS[1])
//	if left < 0 then
//	  redis.call('INCR', KEYS[1])
//	  return redis.error_reply('NO_STOCK none left')
//	end
//	if left > 1000000 then
//	  error({err = 'FROZEN nobody has that much'})
//	end
//	return left
//
// Some text of the script must start with the word, and it must not be raised by
// error or assert with a text, in front of which the server puts the place.
//
// guard: ties a script that writes to a lock. The Go call then takes the lock in
// place of loose strings: anything with Key and Token, or with Fence, such as
// *rlock.Lock. The first form is for data in the lock's slot; it is proved that no
// write comes before the comparison of GET KEYS[n] with ARGV[m]:
//
//	-- mode: write
//	-- KEYS[1] lock  key
//	-- KEYS[2] value key
//	-- ARGV[1] token string
//	-- ARGV[2] text  string
//	-- returns: ok
//	-- errors: NOT_HELD
//	-- guard: KEYS[1] held by ARGV[1]
//	if redis.call('GET', KEYS[1]) ~= ARGV[1] then
//	  return redis.error_reply('NOT_HELD')
//	end
//	return redis.call('SET', KEYS[2], ARGV[2])
//
// The second needs no lock key: the data remembers the largest fence that it was
// written with, and refuses smaller ones. It is proved that the comparison, of
// numbers, comes before the first write; that the first write stores the fence where it
// is compared, so that no error leaves the data changed without it; and that nothing
// behind it removes the fence, overwrites it or lets it expire:
//
//	-- mode: write
//	-- KEYS[1] record key
//	-- ARGV[1] text   string
//	-- ARGV[2] fence  int
//	-- returns: none
//	-- errors: STALE
//	-- guard: KEYS[1] fenced by ARGV[2]
//	local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
//	if tonumber(ARGV[2]) < seen then
//	  return redis.error_reply('STALE')
//	end
//	redis.call('HSET', KEYS[1], 'value', ARGV[1], 'fence', ARGV[2])
//
// allow: waives one check for the script and gives the reason, which the audit
// prints:
//
//	-- mode: write
//	-- KEYS[1] prefix key
//	-- ARGV[1] day    string
//	-- ARGV[2] verb   string
//	-- returns: int
//	-- allow: undeclared-key one key a day, of which the name is not known before
//	-- allow: undeclared-channel one channel a day, too
//	-- allow: dynamic-command the verb comes from the queue's own table
//	-- allow: unknown-command GEOFOO is of a module that runs on our servers
//	local day = KEYS[1] .. ':' .. ARGV[1]
//	redis.call('PUBLISH', day, 'x')
//	redis.call(ARGV[2], KEYS[1])
//	redis.call('GEOFOO', KEYS[1])
//	return redis.call('INCR', day)
//
// A waiver that waives nothing is a finding.
//
// A line that looks like a directive but is not one, such as KEY[1] or Returns:, is
// a finding, never silently prose.
//
// # Included fragments
//
// A line of the body that says
//
//	-- include: shared/window.lua
//
// is followed, in the text that runs, by that file, whose path is relative to the
// file with the line. A line inside of a string or of a long comment is no include.
// Fragments have no header and may include others. A fragment stands once, where it is
// first included, also if other fragments include it. The SHA1 is that of the text that
// runs, and the audit shows that text; findings point into the files that a person
// edits. Cycles, missing files and a file that includes a fragment twice are findings.
//
// # Types of keys and arguments
//
//	key           string; it must not be empty. Every KEYS entry is a key, or a
//	channel       string; it must not be empty: a channel of PUBLISH or SPUBLISH. In
//	              KEYS its slot must be that of the keys, which SPUBLISH needs
//	string        string
//	bytes         []byte
//	int           int64
//	bool          bool, sent as 1 or 0
//	float         float64, sent without an exponent, so that INCRBY takes a whole
//	              one; the zero has no sign; NaN and the infinities are refused
//	duration      time.Duration, in whole milliseconds, at least 1 ms
//	time          time.Time, in milliseconds since 1970; not the zero time
//	enum(a|b)     a Go type of its own, with a constant for each text
//	json          any
//	json(Order)   the Go type Order of the generated package
//	json(example.com/shop/model.Order)    a Go type of another package
//
// An argument of type duration, time, channel or enum may be optional, as duration?:
// its zero value is sent as the empty string. What a type refuses is a *ParamError, and
// nothing has been sent.
//
// # Types of replies
//
//	string        string
//	bytes         []byte
//	int           int64, of an integer or of a string that is one
//	bool          bool; true is 1, OK or the string 1, false is 0, nil or the string 0
//	float         float64; a script must return it as a string, as Redis cuts the
//	              fraction off numbers: a reply that is an integer is refused
//	duration      time.Duration, of milliseconds; what is too long for Go becomes the
//	              longest duration of its sign
//	time          time.Time, of milliseconds since 1970
//	json          json.RawMessage; json(Order) as above
//	raw           rueidis.RedisMessage, whatever came, nil too
//	[]T           []T, of a list
//	map[string]T  of a map, or of a list of keys and values in turn, as HGETALL answers;
//	              a list with a key twice is refused
//	(a T, b U)    a struct, of a list of as many values
//	T?            Null[T], which may be nil; of duration and time, also of the empty
//	              string, which an absent argument is
//
// They may be nested. A ? belongs to the type in front of it: []T? is a list of which
// the elements may be nil, ([]T)? a list that may be nil itself. Likewise
// (a T, b U)? may be nil as a whole.
//
// A list of structs, [](member string, score float), is a list of lists, as a server
// answers after redis.setresp(3), or one list of all values in turn, as WITHSCORES
// answers without:
//
//	-- mode: read
//	-- KEYS[1] board key
//	-- returns: [](member string, score float)
//	return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
//
// The first value of the reply tells the two apart, so that only lists of lists are
// taken where the struct begins with a list, a map, a struct or a raw value.
//
// A reply of another shape is a *ReplyError that names the script and the field and
// shows what came; it is never a zero value. The names of structs in Go are that of the
// script with Result, or with Item for the elements of a list or map, and that of the
// struct around them with the name of the field.
//
// # What is proved
//
// The body is followed statement by statement, with all that each value may be: through
// locals, tables, metatables, loops, varargs, pcall and the script's own functions, each
// call by itself. Conditions narrow what is known, as if not owner then return end does. A
// guard may be compared in an if, an else, an assert or a function of the script, and its
// result may be kept in a local. For a script without waivers these hold in every run, on
// every path. What is not known where it counts, as a key, a command, a called function or
// a reply, is a finding: it names the line where the knowledge was lost, and how to write
// it or the waiver. So is a script that is too much to follow:
//
//   - every command that it can call stands in the audit; none of them writes where the
//     mode is read (PUBLISH, SPUBLISH and PFCOUNT count as writes)
//   - every key of a command comes from KEYS, every channel from a declared entry or
//     from the text; commands that reach keys which nobody names, such as SCAN,
//     FLUSHALL and SORT with a pattern, are findings
//   - a cached script asks about KEYS[1] alone, and not for the clock, a random pick or
//     a remaining time
//   - no write comes before the check of a guard; the first write of a fenced script
//     stores the fence, and none behind it takes it away
//   - a table or a function is never the argument of a command, unless it was decoded from
//     a text
//   - a reply has the declared shape: as many values, in a table without named fields or a
//     nil that cuts it short, names and values in turn for a map; nil and false only where
//     the type is optional or bool; numbers, texts and tables each where they decode; no
//     number with a fraction that Redis would cut off
//
// A waiver opens what it names. The audit says so first, and calls nothing proved that
// rests on it.
//
// An oracle tests that: it writes random programs, runs those that are accepted on real
// servers with no right that the audit does not name, and looks for anything that should
// have been proved impossible: make oracle in this module.
//
// # What is checked
//
// These are findings, too, but a script without them may still fail when it runs:
//
//   - entries of KEYS or ARGV that are used but not declared, or declared but not used;
//     gaps in the numbering
//   - a command that Redis 7.0 does not have, that takes another number of arguments, or
//     cannot run in a script. Where an argument may be nil or false, as what GET answers,
//     the server refuses the call in that case: only what is nothing else is a finding
//   - units: seconds where milliseconds are meant, a span of time where an instant is, both
//     in arguments of commands and in replies, as far as a number comes from the clock, a
//     remaining time or an argument of such a type, added to and multiplied by constants
//   - a bool or an optional argument as a condition, which is true whatever was passed; a
//     comparison of a text with a number; numbers that are compared as texts; an optional
//     argument that is used and never compared with ”
//   - a call, an index or an operation that always is an error
//   - a global that is written, or read and unknown, also as a member: table.unpack,
//     and server and os, which Redis 7.0 does not have; a function that runs or reaches
//     what the text does not show, such as loadstring
//   - an error code that no text starts with, or that is raised with a place in front
//   - what Lua 5.1 refuses: goto, a break outside a loop, "\300", "\x41", a call that
//     may also be a new statement, an empty statement, {1,,2}, 1e, 1and 2, a stray ...
//     or (f()); the compiler's limits, such as 200 locals, are left to -redis
//   - bytes that would make the text that runs differ from the file: carriage
//     returns, a byte order mark, NUL
//   - a first line #!lua that is malformed or disagrees with the mode
//   - names that two scripts, or two entries, would share in Go; files whose names
//     differ by the case of letters only, or that Go would leave out, as x_windows.lua
//
// The commands, with their arity, flags and keys, are those of Redis 7.0.
//
// # What is trusted
//
//   - the command table, which a Redis 7.0 server has given: which of a command's words
//     are keys, and whether it writes
//   - "safe to repeat" of write retryable, and the prose: both are the author's word
//   - that whoever calls passes the keys that it means: a proof is about KEYS[n], not
//     about what stands there
//   - what is stored, and what cjson, cmsgpack and struct decode: that a text which GET
//     answers is the int, the float, the bool or the JSON that returns: says. If it is not,
//     the call is a *ReplyError; only a decoded number with a fraction that is returned as
//     an int is cut
//   - that three values or more take turns in one list for a list of structs
//   - errors that are raised: a script may end with one at every command and operation
//   - the reason of a waiver
//
// # Output
//
// For acquire.lua the generator writes acquire.lua.go: the script's text, its SHA1
// and SHA256, a struct of its parameters and those of its reply, a call, a pipelined
// batch of calls and, for mode read cached, a call through the client-side cache.
// scripts.go gathers all scripts of the package, runtime.go holds the helpers that
// they use, the same in every package, and AUDIT.md is the audit. The code needs no
// module but rueidis. Files of removed scripts are removed, unchanged ones are not
// touched, and a file that the generator did not write is never overwritten.
//
// All files change or none: what is new is on disk before the first file is replaced, and
// after an error in the midst of that, those that were replaced are as they were before.
// Nobody can take back what a killed run has done: it leaves all files as they were, or,
// if it was killed between two replacements, some of them new, which -check shows and the
// next run completes. It also leaves a directory .generator-…, which neither Go nor the
// generator looks into, and which a run an hour later or more removes.
//
// # Audit
//
// For every script: what is not proved of it; its sums and mode; each key and whether it
// is read or written; each command and how often it stands in the text; whether the
// script is safe in a cluster; its guard, its fragments with the text that runs, and
// its waivers with their reasons; and the least ACL rule with which all of its calls
// run through a client that is made as rueidis does it by default. In the rule ~<name>
// and &<name> stand for the keys and channels that are passed as that name. The rule of
// a script with waivers is marked as not whole.
package main
