// Redislua reads Redis Lua scripts with typed headers, proves properties of them, and writes Go calls for
// them. The calls use rueidis or go-redis.
//
//	redislua [-scripts DIR]… [-out DIR] [-package NAME] [-client goredis] [-replicas] [-standalone]
//	         [-redis ADDR] [-watch] [-v]
//	redislua [-scripts DIR]… [-out DIR] -check [-format github|sarif]
//	redislua [-scripts DIR]… -audit [-json]
//	redislua [-scripts DIR]… -try redis-server|ADDR|embedded [-seed N] [-format github|sarif]
//	redislua -init FILE.lua
//
// The generator reads each *.lua file of the directories, by default scripts. It writes a Go package to the
// directory -out, by default gen. It ignores files whose names start with a dot. In your module:
//
//	go get -tool github.com/rlock-go/toolkit/generator/redislua@main
//
//	//go:generate go tool redislua -scripts ../lua -out .
//
// The flags mean:
//
//   - -check writes nothing. It prints a unified diff of the generated files that are out of date, and of the
//     files whose script is gone.
//   - -audit prints what each script is and what it touches. With -json, each script also says how often the
//     generator asked each rule.
//   - -redis names a server, as host:port or as a redis:// URL. The server compiles each script, and the
//     generator reports its errors as findings.
//   - -v prints which files the generator writes and why, and the fixed name of its rule behind each finding.
//   - -watch writes the bindings after each change of a script or a fragment, until Ctrl-C. It prints what -v
//     prints. The exit code is 0.
//
// A finding is a fault in a script. If there are findings, the generator writes nothing. It prints them
// sorted, each as path:line:col: message. If several places have the same fault, one finding names them all.
// One run reports everything at once. But some findings appear only after you mend another finding, such as a
// fault in the header or a misspelt command.
//
// The exit code is 0 if all is well, 1 if there are findings or if -check finds files that are out of date,
// and 2 if the command line is wrong, or if a file or a server fails.
//
// # A first header
//
// -init writes a header into a script that has none. The header has the keys, the arguments with their types,
// the mode, the reply and the error codes. They are guesses from the body, and the generator has checked
// them. An entry gets the name of the local that stores it, or a name such as key1. The comment "-- KEYS[1]:
// the lock" gives the entry its text. The comment lines before the first entry become the prose of the
// header. Make sure that the prose begins with a verb.
//
// -init never declares write retryable, read cached, a guard or a waiver: the author decides. What -init
// cannot know stays a finding, which says what to decide, and the exit code is 1. If the file has a header or
// is not Lua, -init writes nothing. The exit code is 2 for a header, and 1 for the other.
//
// # Running the scripts
//
// -try runs each script on values that it makes from the header, and on data that it makes from the commands.
// It reports faults that only a server shows. For example, a script may raise "value is not an integer or out
// of range" for ttl = "1500" if no key exists.
//
// -try also prints the findings of the checks, and writes no bindings. For each finding of a run, it names
// the smallest input that shows the fault, and prints a Go test to standard output. -try finds these faults:
//
//   - The reply is not what returns: declares, in either version of the protocol. Or the reply is a
//     bool or optional, and is the same for all data.
//   - The script raises an error that it could avoid, raises any error after a write, or replies a code that
//     errors: does not declare. An error because of stored data is none. An error for a value that the prose
//     may exclude, such as 0 and -1, is none either.
//   - A script with mode: read changes data. Or a second equal call of a retryable script changes data again,
//     other than by a number that the reply hands out.
//   - An equal call takes away an expiry, or a number loses its last digits.
//   - A right is missing. The scripts run as a user who has only the rights that the audit names.
//
// The value of -try names the server:
//
//   - A program, such as redis-server: -try starts the program in an empty directory, and kills it at the
//     end. Scripts with waivers run with all rights.
//   - An address: the server must have no data. The run uses keys that start with {redislua-try}: and the
//     user redislua-try, and removes both. It gives no argument a value for which a script may loop for long.
//     It leaves out scripts with findings or waivers, because they may touch any key.
//   - embedded: a server in this process. It knows fewer commands and errors, and no users.
//
// -try tries each value of each entry, and 50 random inputs, for at most ten seconds a script. The inputs are
// the same in each run, and -seed N makes others. A run without findings proves nothing, because it may not
// reach each line. The last note says how many inputs there were.
//
// # In a continuous build
//
// -format prints findings for machines, to standard output. With -check, each file that is out of date is a
// finding too. Paths are relative to the repository, wherever the generator runs. -format github prints
// workflow commands, and GitHub shows them at the lines of a pull request. -format sarif prints a SARIF 2.1.0
// log, also if there are no findings. If the exit code is 2, the log may be missing, and standard error has
// the reason. The action github/codeql-action/upload-sarif takes the log, and adds fingerprints to it.
//
// # Header
//
// The comment that opens a file is its header. Each of its lines is a directive or prose. A line that is
// almost a directive, such as KEY[1], is a finding. The prose becomes the doc comment of the Go method,
// behind the name of the method. So the prose begins with a verb, and the comment begins with TakeJob moves a
// job:
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
// An entry KEYS[n] or ARGV[n] has a name, a type and a text. The names become the fields of one Go struct. A
// next line continues the text if it is indented by three or more spaces. An ARGV entry that the script does
// not use has the name _ and no type. The call sends an empty string in its place.
//
// name: is the Go name of the call. Without it, the name is the file's name in CamelCase.
//
// mode: says how a caller may use the script:
//
//	write            The script changes data. The client sends a call once.
//	write retryable  The script changes data, and the author says that a call may run twice. The
//	                 client sends a lost call again.
//	read             The script only reads, as the generator proves. Calls go to the primary.
//	read cached      The script reads its one key and nothing else, as the generator proves. A second
//	                 call goes through the client-side cache. It sends GET if the script is only GET.
//
// returns: declares the reply: none if the script returns no value, ok if it returns the status OK, or a
// type. It may also be a list of names with types. The script then returns a table with these values in this
// order. The names may have texts, which become comments of the Go struct. Each text stands in its own line
// below returns:, indented by three or more spaces, and starts with the name:
//
//	-- mode: read
//	-- KEYS[1] lock key
//	-- returns: holder string?, remaining duration
//	--   holder    the token of the lock; absent: the lock is free
//	--   remaining what is left of the lease; -1 ms: the lock never expires
//	return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
//
// errors: lists codes, which are the first words of the script's error replies. Each code becomes a Go error
// variable. errors.Is finds the variable, whatever text the server puts around the reply. The generator
// refuses codes such as NOSCRIPT and MOVED, because a client that gets them sends the script again. Here,
// errors.Is(err, ErrNoStock) is true if the script replies NO_STOCK:
//
//	-- mode: write
//	-- KEYS[1] stock key
//	-- returns: int
//	-- errors: NO_STOCK
//	local left = redis.call('DECR', KEYS[1])
//	if left < 0 then
//	  redis.call('INCR', KEYS[1])
//	  return redis.error_reply('NO_STOCK none left')
//	end
//	return left
//
// The script must return an error that starts with the code, or raise it as in error({err = 'NO_STOCK none
// left'}). With error('…') or assert(…, '…'), the server puts the line number in front of the text, so the
// code is not the first word.
//
// guard: ties a script that writes to a lock. The caller then passes the lock, not its key and token. The
// lock is any Go value with the methods Key and Token, or with the method Fence, such as *rlock.Lock. There
// are two forms.
//
// The first form is for data in the hash slot of the lock. The generator proves that the script compares the
// reply of GET KEYS[n] with ARGV[m] before it writes:
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
// With a *rlock.Lock, the first form accepts the holder of the whole lock. It refuses a reader and a holder
// of permits, because the key of a shared lock has no holder's token. The method Readers of a reader's lock
// returns a value that stands for all readers together. While it is in the key, no writer has had the lock
// since the reader got its share.
//
// The second form needs no key of a lock. The data stores the largest fence of its writes, and the script
// refuses smaller fences. The generator proves that the script compares the fences, as numbers, before it
// writes. It proves that the first write stores the fence in the place that the script compares, so no error
// leaves data with an older fence. It proves that no later write removes the fence, overwrites it or gives it
// an expiry. The call refuses a fence above 2^53, because Lua compares doubles:
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
// allow: waives one check for the script, and gives the reason, which the audit prints. A waiver that the
// script does not need is a finding. The checks are undeclared-key, undeclared-channel, dynamic-command,
// unknown-command and unknown-option:
//
//	-- mode: write
//	-- KEYS[1] prefix key
//	-- ARGV[1] day    string
//	-- ARGV[2] verb   string
//	-- returns: int
//	-- allow: undeclared-key each day has its own key, and its name is not known before
//	-- allow: dynamic-command the verb comes from the queue's own table
//	local day = KEYS[1] .. ':' .. ARGV[1]
//	redis.call(ARGV[2], KEYS[1])
//	return redis.call('INCR', day)
//
// # Included fragments
//
// A script may share Lua with other scripts. A line of its body such as
//
//	-- include: shared/window.lua
//
// names a fragment, by a path relative to the file that has the line. In the text that runs, the fragment
// follows the line. A fragment has no header, and may include other fragments. The text that runs has each
// fragment once, at the first place, and the SHA1 is the sum of that text. A line in a string or in a long
// comment includes nothing. A comment that names a fragment in another way is a finding.
//
// # Types of keys and arguments
//
//	key           string; not empty
//	channel       string; not empty; a channel of PUBLISH or SPUBLISH. As a KEYS entry, it is in the
//	              slot of the keys, as SPUBLISH demands
//	channels      string with a hash tag, such as news:{1}: only for a KEYS entry. The script appends
//	              to it, and the hash tag keeps all channels in the slot of the keys
//	string        string
//	bytes         []byte
//	int           int64
//	bool          bool, sent as 1 or 0
//	float         float64, sent without an exponent, so that INCRBY takes a whole number; zero has no
//	              sign; NaN and the infinities are refused
//	duration      time.Duration, sent in milliseconds; a whole number of them, at least 1
//	time          time.Time, sent in milliseconds since 1970; not the zero time
//	enum(a|b)     a Go type of its own, with a constant for each value
//	json          any
//	json(Order)   the Go type Order of the generated package
//	json(example.com/shop/model.Order)    a Go type of another package
//
// A KEYS entry is a key, a channel or channels. A ? makes an argument of type duration, time, channel or enum
// optional, as in duration?. The call sends its zero value as an empty string. If the call refuses a value,
// it returns a *ParamError and sends nothing.
//
// # Types of replies
//
//	string        string
//	bytes         []byte
//	int           int64; the reply is an integer, or a string that is one
//	bool          bool; true is 1, OK or the string 1, false is 0, nil or the string 0
//	float         float64; the script must return a string, because Redis drops the fraction of a
//	              number. The call refuses an integer
//	duration      time.Duration; the reply is in milliseconds. If it is too long for Go, the value is
//	              the longest duration of the same sign
//	time          time.Time; the reply is in milliseconds since 1970
//	json          json.RawMessage; json(Order) as above
//	raw           rueidis.RedisMessage, or any for go-redis; the reply as it came, also nil
//	[]T           []T; the reply is a list
//	map[string]T  map[string]T; the reply is a map, or a list of keys and values in turn, like that
//	              of HGETALL. The call refuses a list that has a key twice
//	(a T, b U)    a struct; the reply is a list with one value for each field
//	T?            redislua.Null[T]; the reply is nil or a T. For duration and time it may also be an
//	              empty string, which stands for an absent argument
//
// Types may be nested. A ? belongs to the type in front of it. In a []T? each element may be nil. A ([]T)? or
// an (a T, b U)? may itself be nil.
//
// For a list of structs, such as [](member string, score float), the reply may be a list of lists. It may
// also be one list with the values of all structs in turn, as Redis replies to WITHSCORES. The call tells the
// two apart by the first value of the reply. If the first field is a list, a map, a struct or raw, the call
// takes only a list of lists.
//
// If a reply has another shape, the call returns a *ReplyError, never a zero value. A Go struct has the name
// of its script with Result behind it. The element of a list or a map has Item in place of Result. A struct
// inside a struct has the outer name with the name of the field behind it.
//
// # What is proved
//
// The generator follows the body statement by statement, and keeps for each value everything that the value
// may be. Conditions narrow what a value may be, as in if not owner then return end.
//
// If a script has no waivers, the statements below hold in every run, on every path. If one of them depends
// on a value that the generator does not know, there is a finding. The finding names the line after which the
// value is not known, and says how to write the line or the waiver. A script that is too large to follow is a
// finding. So is a call in the text that may be one of a command, if the generator sees no way to the call. A
// function that nothing calls may stay, and so may a branch that only constants of the text decide.
//
//   - The audit has every command that the script can call. If the mode is read, none of them writes.
//     PUBLISH, SPUBLISH and PFCOUNT count as writes.
//   - Every key of a command comes from KEYS. Every channel comes from a declared entry, starts with an entry
//     of the type channels, or is a string of the script. A command that uses keys without naming them, such
//     as SCAN, FLUSHALL or SORT with a pattern, is a finding.
//   - A cached script reads KEYS[1] only. It does not depend on the clock, a random choice, a remaining time,
//     a cursor or the rights of the user. It does not depend on what changes while no write tells the cache:
//     an encoding, a size in memory, an idle time or a consumer group. A reply without an order, such as that
//     of SMEMBERS, keeps the order in which the client cached it.
//   - No write comes before the check of a guard. The first write of a fenced script stores the fence, and no
//     later write removes it.
//   - A table or a function is never an argument of a command, unless the script decoded it from a string.
//   - The reply has the declared shape. A table has as many values as declared, no named fields, and no gap
//     or nil that cuts it short. A map has names and values in turn.
//   - nil and false appear only where the type is optional or bool. After redis.setresp(3), false appears
//     only where the type is bool, because false is 0 for some clients.
//   - Numbers, strings and tables appear only where they decode. An error is the whole reply, or a part of
//     the type raw.
//   - No number has a fraction, which Redis would drop. What tonumber reads from a text of the script or of
//     the caller may have one. Write math.floor(tonumber(…)), or find the digits with a pattern, as in
//     string.match(v, '^id:(%d+)').
//
// Redis ends the reply of a list at its first nil, and unpack may end there too. A list has no gap if the
// script appends with list[#list + 1] or table.insert, or stores to an element that is there. It also has no
// gap if the script stores in every run of a loop, by the loop's index or by a counter. Each other index that
// the generator cannot compare with the length is a finding, such as a number of the caller. To a list that
// each run of a loop makes anew and keeps, append with list[#list + 1].
//
// With a waiver, the generator does not prove the statements that depend on it, and the audit says which.
// make oracle, in this module, tests the proofs on random scripts with real servers.
//
// # What is checked
//
// These are findings too. But a script without them may still fail when it runs.
//
//   - An entry of KEYS or ARGV is used and not declared, or declared and not used, or the numbers have a gap.
//   - Redis 7.0 does not have a command, or refuses its number of arguments, an argument where it stands, or
//     the call from a script. An argument that only may be nil or false is no finding: the server refuses it.
//   - A number may have a fraction where a command takes a whole one. Declare an argument that is a number as
//     one, not as string.
//   - A unit is wrong, such as seconds for milliseconds. The unit comes from the clock, a remaining time or
//     an argument. The generator follows it through sums, the functions of math and bit, and products with
//     constants such as 1000 or 0.5. It loses the unit in a text and in a product with another constant, such
//     as 60. If a command or a reply then takes a unit, that is a finding. So is a choice of EX or PX by the
//     caller.
//   - A condition or a comparison comes out the same in every run. In Lua, every number, string and table is
//     true, so if redis.call('EXISTS', KEYS[1]) then asks nothing: write == 1. The reply of SET never equals
//     'OK', because a status is a table. A text argument may be a condition if the script compares it with ”.
//     A switch such as while true, a default such as v or 0, and a parameter of a fragment are no findings.
//   - A reply is asked for what it never has, such as a field of the list that HGETALL answers. The number of
//     MGET's values is compared, although it is the number of keys. unpack gets more values than Lua holds.
//   - Two numbers are compared as strings. An optional argument is used and never compared with ”. A call, an
//     index or an operation always fails. A global is written, or is read and does not exist. A function runs
//     code that is not in the text, such as loadstring.
//   - The script never answers with a declared code, or a line number stands in front of the code.
//   - The script raises a table without err, or with __index or __newindex in its metatable. The servers
//     crash on the first, and ask the others outside of any pcall.
//   - redis.set_repl gets anything but redis.REPL_ALL, a metatable may have __mode, or the comparison of
//     table.sort may answer differently each time. An option of a command has a NUL.
//   - Lua 5.1 refuses the text. Only -redis finds the limits of the compiler, such as 200 locals. The file
//     has a carriage return, a byte order mark or NUL, or a first line #!lua that contradicts the mode.
//   - Two scripts or entries would have one name in Go. Two file names differ only by the case of letters, or
//     Go would ignore a file for its name, such as x_windows.lua.
//
// # What is trusted
//
//   - The command table, which comes from a Redis 7.0 server. It says which words of a command are keys,
//     whether the command writes, what it takes and what it answers. A test sends what the table describes to
//     three servers.
//   - The words write retryable, the prose, and the reason of a waiver: the author says so.
//   - The caller passes the right keys. A proof is about KEYS[n], not about its value.
//   - Stored data, and what cjson, cmsgpack and struct decode. If returns: declares an int, a float, a bool
//     or JSON, the string that GET replies must be one. Otherwise the call returns a *ReplyError, with two
//     exceptions. A decoded number with a fraction loses its fraction if the script returns it as an int. A
//     stored string that tonumber cannot read is a nil, so it ends the list of a reply.
//   - The names of a map differ. This needs trust if they are no constants and the script makes the list, or
//     if HRANDFIELD or ZRANDMEMBER gets a negative count. If two are equal, the call returns a *ReplyError.
//   - The order of the values, if a list of structs with three or more fields comes as one list. A product in
//     a text that is declared JSON is finite.
//   - A comparison for table.sort that answers even for nil puts values in order. With another comparison,
//     Lua may lose elements of the list.
//   - A number of an int, a duration or a time fits 64 bits. A script that divides by an argument that is 0
//     computes another number. Redis then answers with some integer, such as -9223372036854775808, and the
//     call returns it. Compare the divisor first. For a float, the call returns NaN or an infinity.
//   - Errors: a script may fail at every command and at every operation. A script returns {err = e} with the
//     answer of pcall only where the call failed.
//
// # Output
//
// For acquire.lua the generator writes acquire.lua.go. The file has the SHA1 and SHA256 of the script, a
// struct of the parameters, the structs of the reply, and the calls. One call runs the script once, and one
// call runs it many times in a pipeline. With mode: read cached, a third call goes through the client-side
// cache. The code computes no SHA1, so it also runs where that is forbidden (FIPS). scripts.go has the type
// with all calls, and an interface of them for fakes. AUDIT.md is the audit.
//
// acquire.lua beside it is the text that runs, with all that it includes. The calls embed that file, so EVAL
// may run it, sha1sum counts it, and a person reads it. Git must not change the ends of its lines, as it does
// on Windows without "*.lua text eol=lf" in .gitattributes.
//
// The code imports the client, and packages redislua and luaimpl of this module. All bindings share redislua,
// so one errors.As finds the errors of all. luaimpl is for generated code only. So your module needs go get
// github.com/rlock-go/toolkit@main. If luaimpl.Version1 does not compile in scripts.go, the generator and
// that module do not fit. If the module is older, get the module of the generator. Otherwise generate again.
// With -standalone, the generator writes both packages to runtime.go instead, and the code needs no module
// but the client. The types are then those of the generated package.
//
// The generator removes files whose script is gone, and refuses to overwrite a file that it has not written.
// It changes all files or none, unless it is killed between two replacements. The next run completes the
// change. A run at least an hour later removes the directory .redislua-… of the killed run.
//
// # go-redis
//
// With -client goredis the calls take a redis.UniversalClient of github.com/redis/go-redis/v9, which must be
// v9.19 or later. The code does not compile rueidis, and your module needs go get
// github.com/rlock-go/toolkit/redislua/goredis@main. These things differ:
//
//   - There is no call through a client-side cache: mode: read cached is like mode: read.
//   - A raw reply is any, with what go-redis makes of it: nil, string, int64, float64, bool, *big.Int, []any,
//     map[any]any, or an error in a list.
//   - The client sends a script with mode: write once, whatever MaxRetries says. So a call that returns a
//     network error may have run. The client sends other scripts again as often as it repeats commands, not
//     until ctx ends.
//   - The call refuses keys in different slots if the client is a *redis.ClusterClient, also one that reaches
//     its servers through sentinels. For a wrapper of yours, the server decides. The call refuses a
//     *redis.Ring with a *ParamError, because a Ring keeps the keys of one call on several servers.
//   - An error of the server is a redis.Error. Its text has the first word ERR, which rueidis leaves out.
//
// # Replicas
//
// Calls of scripts with mode: read go to the primary, also if the client sends reads to replicas. With
// -replicas they go by EVALSHA_RO, so the client may send them to a replica. rueidis does so if
// SendToReplicas says so, and go-redis if ReadOnly, RouteByLatency or RouteRandomly of its ClusterOptions say
// so. The answer may then be older than the last write, also than the caller's own write. So do not decide on
// what is in the data from such an answer: write. A client repeats such a call after a network error,
// whatever WithoutRetry says. The user needs +evalsha_ro and +eval_ro in place of +evalsha and +eval. Calls
// that write stay as they are.
//
// # Audit
//
// For every script, the audit has its mode, sums, keys, commands, guard, waivers and fragments. It says what
// is not proved of the script, and whether the script is safe in a cluster. It has the smallest ACL rule that
// permits all calls from a client with its default options. With waivers, the rule is marked as incomplete.
// In the rule, ~<name> and &<name> stand for the keys and channels that the caller passes as that name.
package main
