// Generator reads Redis Lua scripts with typed headers, proves things about them,
// and writes Go calls for them around rueidis.
//
//	generator [-scripts DIR]… [-out DIR] [-package NAME] [-redis ADDR] [-v]
//	generator [-scripts DIR]… -check
//	generator [-scripts DIR]… -audit [-json]
//
// It reads every *.lua file of the directories, by default scripts, and writes the
// package in -out, by default gen. It writes all files or none: with a finding
// about any script it prints every finding as path:line:col: message, sorted, and
// exits 1. In a module of yours:
//
//	go get -tool github.com/rlock-go/toolkit/generator
//
//	//go:generate go tool github.com/rlock-go/toolkit/generator -scripts ../lua -out .
//
// -check writes nothing, prints a unified diff of what is out of date, files of
// removed scripts included, and exits 1 if there is any. -audit prints what each
// script is and touches. -redis has a running server compile each script as well,
// and turns its complaints into findings; it is host:port or a redis:// URL. -v
// says what is written and why.
//
// # Header
//
// The comment that opens a file is its header. Its lines are directives or prose;
// prose becomes the doc comment of the Go method.
//
//	-- Takes a free lock.
//	--
//	-- name: Acquire
//	-- mode: write retryable
//	-- KEYS[1]   lock   key        the lock
//	-- KEYS[2..] others key        none or more; a variadic entry must be the last
//	-- ARGV[1]   token  string     owner token
//	-- ARGV[2]   ttl    duration?  lease; absent: never expires
//	-- returns: acquired bool, left duration
//
// KEYS[n] and ARGV[n] entries have a name, a type and a text. The names become
// fields of one Go struct. A line behind an entry that is indented by three or
// more spaces goes on with its text.
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
// returns: is none; ok, for the status OK; one type; or names with types, for which
// the script returns a table of as many values in that order:
//
//	-- returns: ok
//	-- returns: []string
//	-- returns: acquired bool, left duration
//
// errors: lists the words with which the script's error replies begin. Each becomes
// a Go sentinel that errors.Is finds, however the server decorates the reply:
//
//	-- errors: NO_STOCK, FROZEN
//	return redis.error_reply('NO_STOCK only 3 left')    -- errors.Is(err, ErrNoStock)
//
// Some text of the script must start with the word, and it must not be raised by
// error or assert with a text, in front of which the server puts the place.
//
// guard: ties a script that writes to a lock. The Go call then takes the lock in
// place of loose strings: anything with Key and Token, or with Fence, such as
// *rlock.Lock. The first form is for data in the lock's slot; it is proved that no
// write comes before the comparison of GET KEYS[n] with ARGV[m]:
//
//	-- guard: KEYS[1] held by ARGV[1]
//	if redis.call('GET', KEYS[1]) ~= ARGV[1] then
//	  return redis.error_reply('NOT_HELD')
//	end
//	return redis.call('SET', KEYS[2], ARGV[2])
//
// The second needs no lock key: the data remembers the largest fence that it was
// written with, and refuses smaller ones. It is proved that the comparison, of
// numbers, comes before the first write, and that the fence is stored:
//
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
//	-- allow: undeclared-key one key a day, of which the name is not known before
//	-- allow: dynamic-command the verb comes from the queue's own table
//	-- allow: unknown-command GEOFOO is of a module that runs on our servers
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
// file with the line. Fragments have no header and may include others. The SHA1 is
// that of the text that runs, and the audit shows that text; findings point into
// the files that a person edits. Cycles, missing files and a fragment that a script
// includes twice are findings.
//
// # Types
//
//	string        string
//	bytes         []byte
//	int           int64; a reply may also be a string that is an integer
//	bool          bool, sent as 1 or 0; a reply of 1 or OK is true, of 0 or nil false
//	float         float64; a script must return it as a string, as Redis cuts the
//	              fraction off numbers: a reply that is an integer is refused
//	duration      time.Duration, whole milliseconds; an argument must be at least 1 ms
//	time          time.Time, milliseconds since 1970; an argument must not be zero
//	json          any as an argument, json.RawMessage in a reply
//	json(Order)   the Go type Order of the generated package
//	json(example.com/shop/model.Order)    a Go type of another package
//
// A duration or time argument may be optional, as duration?: its zero value is sent
// as the empty string. In a reply, T? may be nil and becomes Null[T]; []T is a list
// and map[string]T a map, or a list of keys and values in turn, as HGETALL answers;
// both may be nested. A reply of another shape is a *ReplyError that names the
// script and the field and shows what came.
//
// # Checks
//
// The body is parsed, and followed: through locals, aliases such as
// local call = redis.call, loops over KEYS, tables that the script fills with keys,
// and its own functions. These are findings:
//
//   - an entry of KEYS or ARGV that is used but not declared, or declared but not
//     used; a computed index, #KEYS, ipairs(KEYS) or unpack(KEYS) without a variadic
//     declaration; gaps in the numbering
//   - a key of a command that does not come from KEYS, and commands that reach keys
//     which nobody names, such as SCAN and FLUSHALL (allow: undeclared-key)
//   - a command that is not a literal (allow: dynamic-command), that Redis 7.0 does
//     not have (allow: unknown-command), takes another number of arguments, is sent
//     nil, a boolean, a table or a function, or cannot run in a script
//   - a write in a read script; PUBLISH, SPUBLISH and PFCOUNT count as writes
//   - the clock, a random pick or a remaining time in a cached script, or a key that
//     is not KEYS[1]
//   - a literal reply of another length than declared, with named fields, or with a
//     nil in it; a number where the header says float; a script that can end without
//     its declared reply
//   - a global that is written, or read and unknown, also as a member: table.unpack;
//     a function that runs or reaches what the text does not show, such as loadstring
//   - an error code that no text starts with, or that is raised with a place in front
//   - a write that a guard does not stand before
//   - what Lua 5.1 refuses: goto, a break outside a loop, "\300", "\x41", a call that
//     may also be a new statement, an empty statement, 1e, a stray ... or (f()); the
//     compiler's limits, such as 200 locals, are left to -redis
//   - bytes that would make the text that runs differ from the file: carriage
//     returns, a byte order mark, NUL
//   - a first line #!lua that is malformed or disagrees with the mode
//   - names that two scripts, or two entries, would share in Go; a file that Go would
//     leave out for its name, as x_windows.lua
//
// What cannot be told is a finding that names its waiver, never silence. Functions
// that take ... are not followed: pass what they need by name.
//
// The commands, with their arity, flags and keys, are those of Redis 7.0.
//
// # Output
//
// For acquire.lua the generator writes acquire.lua.go: the script's text, its SHA1
// and SHA256, a struct of its parameters and one of its reply, a call, a pipelined
// batch of calls and, for mode read cached, a call through the client-side cache.
// scripts.go gathers all scripts of the package, runtime.go holds the helpers that
// they use, and AUDIT.md is the audit. The code needs no module but rueidis. Files
// of removed scripts are removed, unchanged ones are not touched, and a file that
// the generator did not write is never overwritten.
//
// # Audit
//
// For every script: its sums and mode; each key and whether it is read or written;
// each command and how often it stands in the text; whether the script is safe in a
// cluster; its guard, its fragments with the text that runs, and its waivers with
// their reasons; and the least ACL rule with which all of its calls run, in which
// ~<name> stands for the keys that are passed as that name.
package main
