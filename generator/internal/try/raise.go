package try

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// raise is an error that a call answered.
type raise struct {
	text string // without the place
	line int    // in the text that runs; 0: the script returned the error
	lua  bool   // raised by Lua, or by error or assert in the script
}

var (
	raised  = regexp.MustCompile(`^(.*?)(?: script: [0-9a-f]+, on @?user_script:(\d+)\.?)?$`)
	inLua   = regexp.MustCompile(`^(?:Error running script.*?: )?@?(?:user_script|<string>):(\d+): (.*)$`)
	noRight = regexp.MustCompile("NOPERM|The user executing the script can't|ACL failure in script|" +
		"can't access at least one of the keys")
	code = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

func raiseOf(err error) raise {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	m := raised.FindStringSubmatch(text)
	r := raise{text: m[1]}
	r.line, _ = strconv.Atoi(m[2])
	if m := inLua.FindStringSubmatch(r.text); m != nil {
		r.lua, r.text = true, m[2]
		r.line, _ = strconv.Atoi(m[1])
	}
	return r
}

// Errors that say what is wrong with a script, and errors of servers.
var (
	// whatever are errors that do not depend on the data.
	whatever = regexp.MustCompile("^(?:syntax error|too many results to unpack|Unknown.* command|" +
		"Wrong number of args)")
	// ofWords are errors about words that the script wrote.
	ofWords = regexp.MustCompile("^(?:value is not an integer|value is not a valid float|hash value is not|" +
		"value is out of range|invalid expire time|timeout is not|min or max is not a float|bit is not)")
	// running are errors that Lua raises itself.
	running = regexp.MustCompile("^(?:attempt to|bad argument #|too many results to unpack|" +
		"invalid order function|invalid (?:key|value) |string slice too long|stack overflow|wrong number of arg)")
	// ofServers are codes in replies of commands and servers.
	ofServers = []string{"ERR", "WRONGTYPE", "OOM", "NOSCRIPT", "NOPERM", "BUSY", "BUSYKEY", "BUSYGROUP",
		"NOGROUP", "READONLY", "MISCONF", "CROSSSLOT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN",
		"LOADING", "NOREPLICAS", "EXECABORT", "UNKILLABLE", "NOTBUSY", "NOAUTH",
		"WRONGPASS", "UNBLOCKED", "INDEXBUSY"}
)

// first returns the first word, which may be a code. The client drops an ERR at the start.
func (r raise) first() string {
	first, _, _ := strings.Cut(r.text, " ")
	return first
}

// undeclared returns the code of an error that is a text of the script. The header does not declare the code.
func (r raise) undeclared(declared, texts []string) string {
	first := r.first()
	own := func(text string) bool {
		return text == r.text || strings.HasPrefix(text, first+" ") && strings.HasPrefix(r.text, text)
	}
	if !r.lua && code.MatchString(first) && slices.ContainsFunc(texts, own) &&
		!slices.Contains(ofServers, first) && !slices.Contains(declared, first) {
		return first
	}
	return ""
}

// avoidable reports whether the script causes the error, and does not raise it on purpose.
func (r raise) avoidable() bool {
	if r.lua {
		return running.MatchString(r.text)
	}
	return r.line > 0 && !slices.Contains(ofServers, r.first())
}

// blames reports whether the error is the fault of the script. A command refuses unexpected data, and Lua
// refuses unexpected values. So before any write, only an error that the script could avoid is a fault.
func (r raise) blames(in input, wrote bool) bool {
	own := !in.guessed() // the script wrote the data itself
	switch {
	case in.strange() != ordinary || !r.avoidable():
		return false
	case whatever.MatchString(r.text):
		return true
	}
	return own && (r.lua || wrote || ofWords.MatchString(r.text))
}

// advice is what to write in place of the cause of an error.
type advice struct {
	error *regexp.Regexp
	write string
}

// advices are in the order of their use. The last fits every error.
var advices = []advice{
	{
		regexp.MustCompile(`^(?:hash )?value is not an? `),
		"give the command a number that it takes, such as one of math.floor, or declare the entry as int or float",
	},
	{regexp.MustCompile(`^syntax error`), "write options that go together, and that this server has"},
	{regexp.MustCompile(`^too many results`), "unpack a few thousand values at a time"},
	{regexp.MustCompile(`^Wrong number of`), "call the command only with as many words as it takes"},
	{regexp.MustCompile(`^Unknown`), "write a command that this server has"},
	{regexp.MustCompile(``), "compare the value before it is used"},
}

func (r raise) mend() string {
	i := slices.IndexFunc(advices, func(a advice) bool { return a.error.MatchString(r.text) })
	return advices[i].write
}
