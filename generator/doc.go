// Generator reads Redis Lua scripts with typed headers and writes Go wrappers
// around rueidis for them.
//
//	generator [-scripts DIR] [-out DIR] [-package NAME] [-check | -audit]
//
// It writes all files or none: with a finding about any script it prints every
// finding as path:line:col: message, sorted, and exits 1.
//
// # Header
//
// The comment that opens a file is its header. Its lines are directives or
// prose; prose becomes the doc comment of the Go method.
//
//	-- Takes a free lock.
//	--
//	-- name: Acquire
//	-- mode: write retryable
//	-- KEYS[1]   lock   key        the lock
//	-- KEYS[2..] others key        none or more; must be the last entry
//	-- ARGV[1]   token  string     owner token
//	-- ARGV[2]   ttl    duration?  lease; absent: never expires
//	-- returns: acquired bool, left duration
//
// name is the Go identifier, by default the file's name in CamelCase. A line
// behind a KEYS or ARGV entry that is indented by three or more spaces goes on
// with its text.
//
// mode says how the script may be called:
//
//	write            it changes data; a call is sent once
//	write retryable  it changes data and is safe to repeat; a lost call is sent again
//	read             it only reads; calls go to the primary
//	read cached      it reads its one key only; there is a call through the client-side cache
//
// returns is none, ok (the status OK), one type, or a list of names and types,
// for which the script returns a table of as many values in that order.
//
// errors lists codes with which the script's error replies begin; each becomes
// a Go sentinel: "errors: NO_STOCK" makes ErrNoStock.
//
// allow waives one check for the script and gives the reason, which -audit
// prints: "allow: dynamic-command the queue's verb comes from ARGV[1]".
//
// A line that looks like a directive but is not one, such as KEY[1] or Returns:,
// is a finding, never silently prose.
//
// # Types
//
//	string    string
//	bytes     []byte
//	int       int64
//	bool      bool, sent as 1 or 0; a reply of 1 or OK is true, 0 or nil false
//	float     float64; a script must return it as a string, as Redis cuts numbers
//	duration  time.Duration, whole milliseconds; an argument must be at least 1 ms
//	time      time.Time, milliseconds since 1970
//	json      any as an argument, json.RawMessage in a reply
//
// A duration or time argument may be optional (duration?): its zero value is
// sent as the empty string. In a reply, T? may be nil and becomes Null[T], and
// []T is a list; []T? is a list of which elements may be nil.
//
// # Checks
//
// The body is parsed, not searched. These are findings: an entry of KEYS or ARGV
// that is used but not declared, declared but not used, or used with a computed
// index without a variadic declaration; gaps in the numbering; a literal reply
// of another length than declared, or with a nil in it; a script that can end
// without its declared reply; a global that is written, or read and unknown; a
// command that does not exist, is not a literal, takes another number of
// arguments, or cannot run in a script; a write in a read script; the clock, a
// random pick or a remaining time in a cached script; goto; a break outside a
// loop; carriage returns and byte order marks; a first line #!lua that disagrees
// with the mode.
//
// # Output
//
// For acquire.lua the generator writes acquire.lua.go, with the script's text,
// its SHA1 and SHA256, a struct of its parameters and one of its reply, a call,
// a pipelined batch of calls and, in mode read cached, a call through the
// client-side cache. scripts.go gathers all scripts of the directory, and
// runtime.go holds the helpers that they use. Files that it wrote for scripts
// that are gone are removed; a file that it did not write is never touched.
package main
