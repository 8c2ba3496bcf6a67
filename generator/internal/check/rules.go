package check

// The names of the rules, which do not change. A finding has the name of its rule, and an
// audit tells how often each was asked.
const (
	ruleLimits   = "limits"              // the script is not too much to follow
	ruleEntries  = "entries"             // KEYS and ARGV are used as they are declared
	ruleUnused   = "unused-entry"        // what is declared is used
	ruleGlobals  = "globals"             // globals are those of Redis 7.0, and stay as they are
	ruleLua      = "lua"                 // what always is an error is not written
	ruleCalled   = "unknown-function"    // what is called is known
	ruleDynamic  = "dynamic-command"     // which command is called is known
	ruleUnknown  = "unknown-command"     // Redis 7.0 has it
	ruleNoScript = "not-in-scripts"      // and runs it in a script
	ruleArity    = "number-of-arguments" // with as many words
	ruleArgument = "type-of-argument"    // each of them a string or a number
	ruleReadOnly = "read-only"           // a script that reads does not write
	ruleKey      = "undeclared-key"      // keys come from KEYS
	ruleChannel  = "undeclared-channel"  // channels are declared
	ruleUnits    = "units"               // times and spans are in the unit that is taken
	ruleCached   = "cached"              // what a cache holds changes with its key only
	ruleTests    = "conditions"          // conditions ask what they seem to
	ruleReply    = "reply"               // what is returned is of the declared type
	ruleErrors   = "error-codes"         // declared codes are answered
	ruleHeld     = "held"                // no write comes before the lock's token is compared
	ruleFenced   = "fenced"              // nor before the fence is, which is stored
	ruleWaivers  = "unused-waiver"       // a waiver waives something
	ruleOptional = "optional-argument"   // what may be absent is compared before it counts
)

// ask notes that a rule is asked. What is found until the next one is found by it.
func (c *checker) ask(rule string) {
	c.rule = rule
	c.report.Asked[rule]++
}
