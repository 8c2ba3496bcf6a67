// Redislua reads Redis Lua scripts with typed headers, proves things about them,
// and writes Go calls for them around rueidis, or around go-redis.
//
//	redislua [-scripts DIR]… [-out DIR] [-package NAME] [-client goredis] [-replicas] [-standalone] [-redis ADDR] [-watch] [-v]
//	redislua [-scripts DIR]… [-out DIR] -check [-format github|sarif]
//	redislua [-scripts DIR]… -audit [-json]
//	redislua [-scripts DIR]… -try redis-server|ADDR|embedded [-seed N] [-format github|sarif]
//	redislua -init FILE.lua
//
// It reads every *.lua file of the directories, by default scripts, and writes a Go
// package to the directory -out, by default gen. It ignores files whose names start with
// a dot, because editors make such files. In a module of yours:
//
//	go get -tool github.com/rlock-go/toolkit/generator/redislua@main
//
//	//go:generate go tool redislua -scripts ../lua -out .
//
// -check writes nothing. It prints a unified diff of the generated files that are out of
// date, which includes files whose script is gone. -audit prints what each script is and
// what it touches. -redis names a server, as host:port or as a redis:// URL: the server
// compiles each script, and the generator reports its errors as findings. -v prints which
// files the generator writes, and why, and behind each finding the name of its rule. These
// names do not change. With -audit -json, each script says how often each rule was asked.
//
// A finding is something wrong with a script. If there is any, the generator writes
// nothing. It prints all findings, sorted, each as path:line:col: message. If the same is
// wrong in several places, it prints one finding that names the other places. One run reports
// everything at once. If the header has faults, it reports those faults of the body that do not
// depend on the header. A few findings appear only when another is mended, because nobody knows
// what a misspelt command replies. A file that cannot be read is a finding too; the exit code is
// then 2.
//
// The exit code is 0 if all is well. It is 1 if there are findings, or if -check finds files
// that are out of date. It is 2 if the command line is wrong, or if a file or a server failed.
//
// -watch writes the bindings, and again after each change of a script or a fragment, until
// Ctrl-C. It prints what -v does, with the findings of each run, and the exit code is 0.
//
// # A first header
//
// -init writes a header into a script that has none:
//
//	$ redislua -init lua/take.lua
//	lua/take.lua: the header is written, and the generator accepts it; read its types, name its entries, and say what they are
//
// The header has the keys and the arguments with their types, the mode, the reply and the error
// codes. All of them are guesses from the body, which the generator has checked. An argument that
// goes to PEXPIRE is a duration, for example, and one that goes to EXPIRE is an int. An entry has
// the name of the local that it is stored in, or a name such as key1, and the text that a comment
// such as -- KEYS[1]: the lock gives it. Comment lines that open the file, up to such a line, become
// the prose of the header: see that it begins with a verb.
//
// -init never declares write retryable, read cached, a guard or a waiver, because these are words
// of the author. What it cannot know stays a finding: the message says what there is to decide, and
// the exit code is 1. If there is a header already, or the file is no Lua, it writes nothing; the exit
// code is 2 for the first, and 1 for the second, which is a finding.
//
// # Running the scripts
//
// -try runs the scripts on values that it makes from their headers, and on data that it makes from
// the commands that use the keys. It reports what no analysis knows, because only a server does:
//
//	$ redislua -scripts lua -try redis-server
//	lua/expire.lua:7:1: the script raises "value is not an integer or out of range"; give the command
//	a number that it takes, as of math.floor, or declare the entry as int or float (input: no key
//	exists, ttl = "1500")
//
// It prints the findings of the checks too, and writes no bindings. For each finding of a run it names
// the smallest input that shows it, and it prints Go tests for the package of the bindings to standard
// output. These are findings:
//
//   - The reply is not what returns: declares, in either version of the protocol.
//   - The script raises an error that it could have avoided: one of Lua, one of a command that does not
//     take its words, or any after a write. A code that it replies and errors: does not declare is one
//     too. That a command refuses what is stored is none, and so is what comes of values that the prose
//     may exclude, such as 0 and -1.
//   - A script with mode: read changes data.
//   - A second call of a retryable script, with the same words, changes data again. A number that the
//     reply hands out, such as an id, may be another.
//   - A key that has got an expiry from a call loses it by an equal one.
//   - A right is missing. The scripts run as a user who has only the rights that the audit names.
//   - A number has lost its last digits, because Lua has written it with an exponent.
//   - A reply that is a bool, or may be absent, is the same for all data.
//
// If -try names a program, such as redis-server, it starts that in an empty directory, and kills it at
// the end. If it names an address, as host:port or a URL, the server must have no data. There the run
// uses keys that start with {redislua-try}: and the user redislua-try, and removes both. It gives no
// argument a value for which a script may loop for long, and leaves out scripts with findings or
// waivers, because they may touch any key. On a server of its own, scripts with waivers run with all
// rights. embedded is a server in this process, which knows fewer commands and errors, and no users.
//
// Each value of each entry is tried, and 50 inputs by chance, for at most ten seconds a script. The
// inputs, and so the findings, are the same in each run; -seed N makes others. The last note says how many
// inputs there were. A run that finds nothing has proved nothing: it may not have come to every line, such
// as one behind data that only another script makes.
//
// # In a continuous build
//
// -format prints findings for machines, to standard output. With -check, each generated file
// that is out of date is a finding too. Paths are relative to the repository, wherever the
// generator runs. -format github prints workflow commands, and GitHub shows them at the lines of
// a pull request:
//
//	steps:
//	- run: go tool redislua -scripts lua -out bindings -check -format github
//
// -format sarif prints a SARIF 2.1.0 log, also if there are no findings. If the exit code is 2,
// the log may be missing: standard error then has the reason. The log says where a finding begins,
// and has one character of it. The fingerprints by which GitHub knows a finding again come from
// upload-sarif. A code scanning service takes the log as a file:
//
//	steps:
//	- run: go tool redislua -scripts lua -out bindings -check -format sarif > generator.sarif
//	- uses: github/codeql-action/upload-sarif@v3
//	  if: always()
//	  with: {sarif_file: generator.sarif}
//
// # Header
//
// The comment that opens a file is its header. Each of its lines is a directive or prose.
// The prose becomes the doc comment of the Go method, behind the name of the method, so it begins
// with a verb, as here: TakeJob moves a job.
//
//	-- Moves a job to its worker's list and tells listeners.
//	--
//	-- name: TakeJob
//	-- mode: write
//	-- KEYS[1]   queue  key       the waiting jobs
//	-- KEYS[2]   mine   key       the worker's list
//	-- KEYS[3..] copies key       any number of keys, or none; such an entry must be the last
//	-- ARGV[1]   how    enum(publish|spublish)
//	-- ARGV[2]   _                was the worker's name, which the script does not use any more
//	-- ARGV[3]   news   channel   the listeners' channel
//	-- ARGV[4]   keep   duration? how long the list is kept; absent: for ever
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
// A KEYS[n] or ARGV[n] entry has a name, a type and a text. The names become the fields of
// one Go struct. If the next line is indented by three or more spaces, it continues the
// text. An ARGV entry that the script does not use has the name _ and no type; the call
// sends an empty string in its place.
//
// name: is the Go name of the call. Without it, the name is the file's name in CamelCase.
//
// mode: says how the script may be called:
//
//	write            The script changes data. The client sends a call once.
//	write retryable  The script changes data, and the author says that a call may run
//	                 twice. If the client loses a call, it sends the call again.
//	read             The script only reads. The generator proves it. Calls go to the primary.
//	read cached      The script reads its one key and nothing else. The generator proves it,
//	                 and writes a second call, through the client-side cache. If the whole
//	                 script is return redis.call('GET', KEYS[1]), the second call sends GET.
//
// returns: declares the reply. It is none if the script returns no value, ok if it returns
// the status OK, or a type. It may also be a list of names with types: the script then
// returns a table with these values in this order.
//
// A list may have texts, which become comments of the Go struct. Each stands in a line of its own
// below returns:, indented by three or more spaces, and starts with the name of its field:
//
//	-- mode: read
//	-- KEYS[1] lock key
//	-- returns: holder string?, remaining duration
//	--   holder    the token of the lock; absent: the lock is free
//	--   remaining what is left of the lease; -1 ms: the lock never expires
//	return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
//
// errors: lists codes, which are the first words of the script's error replies. Each code
// becomes a Go error variable. errors.Is finds it, whatever text the server puts around the
// reply. Codes such as NOSCRIPT and MOVED are refused, because clients act on them: they send the
// script again. Here, errors.Is(err, ErrNoStock) is true if the script replies NO_STOCK:
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
// The script must return an error that starts with the code, or raise it. It must not raise it with
// error('…') or assert(…, '…'), because the server puts the line number in front of such a
// text, so the code is not its first word.
//
// guard: ties a script that writes to a lock. The caller then passes the lock, not its key
// and token as strings. The lock is any Go value with the methods Key and Token, or with Fence,
// such as *rlock.Lock. There are two forms.
//
// The first form is for data in the hash slot of the lock. The generator proves that the
// script compares the reply of GET KEYS[n] with ARGV[m] before it writes:
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
// With a *rlock.Lock, this form accepts one who has the whole lock. Its reader is refused, and so is its
// holder of permits, because the key of a shared lock has no holder's token. The method Readers of the
// reader's lock returns what stands for all readers together: their Token is what the key has as long as
// they share the lock, so no writer has had it since the reader's share was granted, and none has it now.
//
// The second form needs no key of a lock. The data stores the largest fence that it was
// written with, and the script refuses smaller fences. The generator proves three things.
// The script compares the fences, as numbers, before it writes. Its first write stores the
// fence in the place that it compares, so no error can leave data with an older fence. No
// later write removes the fence, overwrites it or gives it an expiry. The call refuses a fence
// above 2^53, because Lua compares doubles:
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
// allow: waives one check for the script, and gives the reason. The audit prints it:
//
//	-- mode: write
//	-- KEYS[1] prefix key
//	-- ARGV[1] day    string
//	-- ARGV[2] verb   string
//	-- returns: int
//	-- allow: undeclared-key each day has its own key, and its name is not known before
//	-- allow: undeclared-channel each day has its own channel too
//	-- allow: dynamic-command the verb comes from the queue's own table
//	-- allow: unknown-command GEOFOO belongs to a module on our servers
//	-- allow: unknown-option our servers are of Redis 8.4, where SET takes IFEQ
//	local day = KEYS[1] .. ':' .. ARGV[1]
//	redis.call('PUBLISH', day, 'x')
//	redis.call(ARGV[2], KEYS[1])
//	redis.call('GEOFOO', KEYS[1])
//	redis.call('SET', KEYS[1], 'new', 'IFEQ', 'old')
//	return redis.call('INCR', day)
//
// A waiver that the script does not need is a finding.
//
// A line that is almost a directive, such as KEY[1] or Returns:, is a finding. It never
// becomes prose.
//
// # Included fragments
//
// A script may share Lua with others. A line of its body such as
//
//	-- include: shared/window.lua
//
// names a fragment, by a path relative to the file that has the line. In the text that runs,
// the fragment follows the line. A line inside a string or a long comment includes nothing.
// A comment that names a fragment in another way, such as an indented one, is a finding.
// A fragment has no header, and may include others. If several files include one fragment,
// the text that runs has it once, at the first place. The SHA1 is that of the text that
// runs, which stands beside the bindings as a file. Findings name the files that a person edits. A cycle,
// a missing file, and a file that includes one fragment twice are findings.
//
// # Types of keys and arguments
//
//	key           string; not empty. Every KEYS entry is a key, or a
//	channel       string; not empty: a channel of PUBLISH or SPUBLISH. As a KEYS entry it
//	              must be in the slot of the keys, as SPUBLISH demands
//	channels      string with a hash tag, such as news:{1}: of which a KEYS entry has what all
//	              channels of the script start with: the script appends to it. Because of the
//	              hash tag they are in the slot of the keys
//	string        string
//	bytes         []byte
//	int           int64
//	bool          bool, sent as 1 or 0
//	float         float64, sent without an exponent, so that INCRBY takes a whole number;
//	              zero has no sign; NaN and the infinities are refused
//	duration      time.Duration, sent in milliseconds; a whole number of them, at least 1
//	time          time.Time, sent in milliseconds since 1970; not the zero time
//	enum(a|b)     a Go type of its own, with a constant for each value
//	json          any
//	json(Order)   the Go type Order of the generated package
//	json(example.com/shop/model.Order)    a Go type of another package
//
// A ? makes an argument of type duration, time, channel or enum optional, as in duration?:
// the call sends its zero value as an empty string. If a value is refused, the call returns a
// *ParamError and sends nothing.
//
// # Types of replies
//
//	string        string
//	bytes         []byte
//	int           int64; the reply is an integer, or a string that is one
//	bool          bool; true is 1, OK or the string 1, false is 0, nil or the string 0
//	float         float64; the script must return a string, because Redis drops the
//	              fraction of a number: a reply that is an integer is refused
//	duration      time.Duration; the reply is in milliseconds. If it is too long for Go, the
//	              value is the longest duration of the same sign
//	time          time.Time; the reply is in milliseconds since 1970
//	json          json.RawMessage; json(Order) as above
//	raw           rueidis.RedisMessage, or any for go-redis; the reply as it came, also nil
//	[]T           []T; the reply is a list
//	map[string]T  map[string]T; the reply is a map, or a list of keys and values in turn, as
//	              of HGETALL. A list that has a key twice is refused
//	(a T, b U)    a struct; the reply is a list with one value for each field
//	T?            redislua.Null[T]; the reply is nil or a T. For duration and time it may also be an
//	              empty string, because that is what an absent argument is sent as
//
// Types may be nested. A ? belongs to the type in front of it: in a []T?, each element may be
// nil; a ([]T)? may itself be nil, and so may an (a T, b U)?.
//
// For a list of structs, such as [](member string, score float), the reply may be a list of
// lists, or one list with the values of all structs in turn. Redis replies to WITHSCORES with
// the second, and after redis.setresp(3) with the first:
//
//	-- mode: read
//	-- KEYS[1] board key
//	-- returns: [](member string, score float)
//	return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
//
// The call tells the two apart by the first value of the reply. So if the first field of the
// struct is a list, a map, a struct or raw, the call takes only a list of lists.
//
// If a reply has another shape, the call returns a *ReplyError, never a zero value. The error
// names the script and the field, and shows the reply. In Go, a struct is named after its
// script, with Result behind it, or Item if it is the element of a list or a map. A struct
// inside a struct has the outer name with the name of the field behind it.
//
// # What is proved
//
// The generator follows the body statement by statement, and keeps for each value everything
// that it may be. It follows locals, tables, metatables, loops, varargs, pcall, and each call
// of the script's own functions. Conditions narrow what a value may be, as in
// if not owner then return end. A script may compare its guard in an if, an else, an assert or
// a function of its own, and may keep the result in a local.
//
// If a script has no waivers, the statements below hold in every run, on every path. If the
// generator does not know a value that one of them depends on, such as a key, a command, a
// function that is called or a reply, there is a finding. It names the line after which the
// value is not known, and says how to write the line or the waiver. A script that is too large
// to follow is a finding too. So is a call in the text that may be one of a command, if the
// generator sees no way to it, because nothing would be known of it. A function that nothing calls
// may stay, and so may a branch that only constants of the text decide, such as that of a helper
// which other scripts include as well, or of a switch in a table that nothing changes.
//
//   - The audit has every command that the script can call. If the mode is read, none of them
//     writes; PUBLISH, SPUBLISH and PFCOUNT count as writes.
//   - Every key of a command comes from KEYS. Every channel comes from a declared entry, starts
//     with one of the type channels, or is a string of the script. A command that uses keys which it does not name, such as SCAN,
//     FLUSHALL or SORT with a pattern, is a finding.
//   - A cached script reads KEYS[1] only. It does not depend on the clock, on a random choice,
//     on a remaining time, on a cursor or on the rights of the user, nor on what changes while no
//     write tells the cache: an encoding, a size in memory, an idle time, a consumer group. What
//     has no order, such as the reply of SMEMBERS, keeps the order in which it was cached.
//   - No write comes before the check of a guard. The first write of a fenced script stores
//     the fence, and no later one removes it.
//   - A table or a function is never an argument of a command, unless the script decoded it
//     from a string.
//   - The reply has the declared shape. A table has as many values as declared, no named
//     fields, and no gap or nil that cuts it short; a map has names and values in turn. nil and false
//     appear only where the type is optional or bool, and after redis.setresp(3), where false is
//     0 for some clients, false only where it is bool. Numbers, strings and tables appear only
//     where they decode. An error is all of a reply, never a part of it, unless the part is of the
//     type raw. No number has a fraction, which Redis would drop. What tonumber reads
//     from a text of the script or of the caller may have one: write math.floor(tonumber(…)),
//     or find the digits with a pattern, as in string.match(v, '^id:(%d+)').
//
// Redis ends the reply of a list at its first nil, and unpack may end there too. So the
// generator follows how far each index is from the length of its list. It knows that a list
// has no gap if the script appends with list[#list + 1] or table.insert, stores to an element
// that is there, or stores in every run of a loop, by the loop's index or by a counter:
//
//	-- mode: read
//	-- KEYS[1..] keys key
//	-- returns: sizes []int, full []string
//	local sizes, full, n = {}, {}, 0
//	for i, key in ipairs(KEYS) do
//	  sizes[i] = redis.call('LLEN', key)
//	  if sizes[i] > 100 then
//	    n = n + 1
//	    full[n] = key
//	  end
//	end
//	return {sizes, full}
//
// Here, full[i] = key would be a finding. So is each other index that the generator cannot
// compare with the length, such as a number of the caller, in a list that is returned or
// unpacked. An index of a list that is made anew in each run of a loop, and is kept, is one of
// these: append to it with list[#list + 1].
//
// With a waiver, the statements that depend on it are not proved. The audit says which, before
// anything else.
//
// A test tries these proofs: make oracle, in this module. It writes random scripts, runs those
// that the generator accepts on real servers, with only the rights that the audit names, and
// looks for anything that should be impossible.
//
// # What is checked
//
// These are findings too. But a script without them may still fail when it runs.
//
//   - An entry of KEYS or ARGV is used and not declared, or declared and not used, or the
//     numbers have a gap.
//   - Redis 7.0 does not have a command, or the command takes another number of arguments, or
//     scripts may not call it. An argument that is always nil or false is a finding. One that
//     may be nil or false, such as a reply of GET, is none: the server refuses such a call.
//   - Redis 7.0 does not take an argument where it stands: an option that it does not know, one
//     without its value, two that exclude each other, arguments in another order, a text where it
//     takes a number, or a number that may have a fraction where it takes a whole one. An argument
//     that goes where a number is taken is declared as one, and not as string.
//   - A unit is wrong: seconds for milliseconds, or a duration for a point in time. This covers
//     arguments of commands, replies, sums, differences and comparisons, if the number comes from
//     the clock, from a remaining time or from an argument of such a type. Two points in time have
//     no sum, for example, and TIME answers with seconds, and with the microseconds since the last
//     of them. The unit is followed through sums, remainders,
//     the functions of math and bit, and products with constants such as 1000 or 0.5. If the
//     script makes a text of it, as in string.sub(ARGV[1], 1, -4), or multiplies it by another
//     constant, such as 60 or 1 / 60000, nobody can tell what the result counts, and that is a finding
//     where a unit is taken. A product with another number has no unit: it may be a rate. If the
//     caller may choose the option, such as EX or PX, that is a finding too.
//   - A condition or a comparison comes out the same in every run. In Lua, every number, string and
//     table is true, so if redis.call('EXISTS', KEYS[1]) then, not redis.call('EXISTS', KEYS[1]) and
//     assert(redis.call('SISMEMBER', …)) ask nothing: write == 1. A status is a table, so the reply of
//     SET is never equal to 'OK'. An argument is never equal to a text that its type does not have,
//     such as an empty one for a key or '0.0' for a float. What only constants of the text decide is none, such
//     as while true or a switch, and neither is what stands in for a value, as in v or 0, a
//     question whether KEYS or ARGV has an entry at all, and a question about a parameter of a
//     fragment's function. A text argument may be a condition if it is compared with the empty one somewhere.
//   - A reply is asked for what it never has, such as a field of the list that HGETALL answers, or an
//     index of the {map = …} that it answers after redis.setresp(3). The number of values that MGET
//     answers is compared, which is that of the keys. unpack is asked for more values than Lua holds.
//   - Two numbers are compared as strings. An optional argument is used, and never compared with the
//     empty string.
//   - A call, an index or an operation always fails.
//   - A global is written, or is read and does not exist. Members count too, such as
//     table.unpack, and server and os, which Redis 7.0 does not have. A function runs code that
//     is not in the text, such as loadstring.
//   - The script neither returns nor raises an error with a declared code, or it raises the code so
//     that the server puts a line number in front of it.
//   - A table without err is raised, on which the servers crash, or one whose metatable has
//     __index or __newindex, which they ask outside of any pcall.
//   - redis.set_repl gets anything but redis.REPL_ALL.
//   - A metatable may have __mode, so that elements of a table are gone at times that nobody
//     knows, or the comparison of table.sort may answer differently each time.
//   - An option of a command has a NUL, up to which the servers read it.
//   - Lua 5.1 refuses the text: goto, a break outside a loop, "\300", "\x41", a call that could
//     also be a new statement, an empty statement, {1,,2}, 1e, 1and 2, or a ... or (f()) that
//     stands where it may not. The limits of the compiler, such as 200 locals, need -redis.
//   - The file has bytes with which the text that runs would differ from the file: a carriage
//     return, a byte order mark or NUL.
//   - The first line starts with #!lua, and is malformed or contradicts the mode.
//   - Two scripts, or two entries, would have one name in Go. Two file names differ only by
//     the case of letters, or Go would ignore a file for its name, such as x_windows.lua.
//
// The commands, with their arity, flags, keys and arguments, are those of Redis 7.0.
//
// # What is trusted
//
//   - The command table, which comes from a Redis 7.0 server: it says which words of a command
//     are keys, whether the command writes, and what it takes. What it answers stands beside it. A
//     test sends what the table describes to three servers.
//   - The words write retryable, and the prose: the author says so.
//   - The caller passes the right keys. A proof is about KEYS[n], not about its value.
//   - Stored data, and what cjson, cmsgpack and struct decode. If returns: declares an int, a
//     float, a bool or JSON, the string that GET replies must be one. If it is not, the call
//     returns a *ReplyError. There are two exceptions. A decoded number with a fraction
//     that the script returns as an int loses its fraction. In a list, a stored string that
//     tonumber cannot read is a nil, so the reply ends there.
//   - That the names of a map differ, if they are no constants and the script makes the list, or if
//     HRANDFIELD or ZRANDMEMBER gets a negative count. If two are equal, the call returns a *ReplyError.
//   - For a list of structs with three or more fields that comes as one list, the order of the
//     values.
//   - That a comparison which table.sort gets, and which answers even for nil, puts values in
//     order. With another one, Lua may lose elements of the list.
//   - That a product in a text that is declared JSON is finite.
//   - That a number of an int, a duration or a time is one that 64 bits hold. The script may
//     compute another, for example if it divides by an argument that is 0: Redis then answers
//     with some integer, such as -9223372036854775808, and the call returns it. Compare the
//     divisor first. For a float, the call returns NaN or an infinity.
//   - Errors: a script may fail at every command and at every operation. That {err = e} with
//     what pcall has answered is returned only where the call has failed.
//   - The reason of a waiver.
//
// # Output
//
// For acquire.lua the generator writes acquire.lua.go. It has the SHA1 and SHA256 of the script, a
// struct of the parameters, the structs of the reply, and the calls: one
// that calls the script once, one that calls it many times in a pipeline and, for mode: read
// cached, one through the client-side cache. scripts.go has the type with all calls, an interface
// of them for fakes, and a comment for the package, unless a file of yours has one.
// AUDIT.md is the audit. The code computes no SHA1, so it also runs where that is forbidden (FIPS).
//
// The code imports the client and two packages of this module. Package redislua has what you name: Null,
// Reply, the errors, WithoutRetry. It is one for all bindings, so one errors.As finds the errors of all.
// Package luaimpl is for generated code only. So your module requires this one:
//
//	go get github.com/rlock-go/toolkit@main
//
// scripts.go names the version of luaimpl that it needs, as luaimpl.Version1. If that does not compile, the
// generator and the required module are not of one time: get the module of the generator if it is
// older, or else generate again.
//
// With -standalone, the generator writes all of both packages to runtime.go instead, and the code needs no
// module but the client. The types are then those of the generated package, and a fault in runtime.go is
// mended when you generate again.
//
// Beside acquire.lua.go stands acquire.lua, the text that runs, with all that it includes. The
// calls embed that file, so it is what EVAL may run, what sha1sum counts, and what a person reads.
// Git must not change the ends of its lines, as it does on Windows without "*.lua text eol=lf" in
// .gitattributes.
//
// The generator removes files whose script is gone. It does not touch files that have not
// changed, and it refuses to overwrite a file that it has not written.
//
// It changes all files or none. It writes all new texts to disk before it replaces the first
// file. If it fails after that, it puts back the files that it has replaced. A run that is
// killed cannot do so: if it is killed between two replacements, some files are new and others
// are old. -check then shows the difference, and the next run completes it. A killed run also
// leaves a directory .redislua-…, which Go and the generator ignore. A run at least an hour
// later removes it.
//
// # go-redis
//
// With -client goredis the calls take a redis.UniversalClient of github.com/redis/go-redis/v9, which
// must be v9.19 or later. The code imports luaimpl of a module for this client, and does not compile rueidis:
//
//	go get github.com/rlock-go/toolkit/redislua/goredis@main
//
// Everything else is as for rueidis: parameters, answers, errors, batches, guards, and Caller for fakes.
// But
//
//   - There is no call through a client-side cache: mode: read cached is read like mode: read.
//   - A raw reply is any, with what go-redis makes of it: nil, string, int64, float64, bool, *big.Int,
//     []any, map[any]any, or an error in a list.
//   - A script with mode: write is sent once, whatever MaxRetries says, so a call that returns a
//     network error may have run. Others are sent again as often as the client repeats commands, not
//     until ctx ends.
//   - Keys in different slots are refused if the client is a *redis.ClusterClient, also one that
//     reaches its servers through sentinels. A client of another type, such as a wrapper of yours,
//     leaves that to the server.
//   - A *redis.Ring is refused with a *ParamError, because it keeps the keys of one call on several
//     servers.
//   - An error of the server is a redis.Error. Its text is that of the server, with its first word
//     ERR, which rueidis leaves out.
//
// # Replicas
//
// Calls of scripts with mode: read go to the primary, also if the client sends reads to replicas.
// With -replicas they go by EVALSHA_RO, so the client may send them to a replica: rueidis does so
// if SendToReplicas says so, in a cluster too, where it asks a replica of the slot, and go-redis if
// ReadOnly, RouteByLatency or RouteRandomly of its ClusterOptions say so. The answer may
// then be older than the last write, also than the caller's own. A client repeats such a call after
// a network error, whatever WithoutRetry says, and the user needs +evalsha_ro and +eval_ro in place
// of +evalsha and +eval. Calls that write stay as they are. A script must not depend on it: to
// decide on what is in the data, write.
//
// # Audit
//
// For every script, the audit has
//
//   - what is not proved of it
//   - its mode and its sums
//   - its keys, and whether it reads or writes each
//   - its commands, and how often each stands in the text
//   - whether it is safe in a cluster
//   - its guard, its waivers with their reasons, and its fragments with the text that runs
//   - the smallest ACL rule that permits all of its calls, from a client that rueidis makes
//     with its default options or, with -client goredis, from one of go-redis
//
// In the rule, ~<name> and &<name> stand for the keys and channels that the caller passes as
// that name. The rule of a script with waivers is marked as incomplete.
package main
