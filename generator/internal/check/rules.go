package check

import "github.com/rlock-go/toolkit/generator/internal/finding"

// The names of the rules, which never change. A finding has the name of its rule. An audit says how often the
// checker asked each rule.
const (
	ruleLimits   = "limits"
	ruleEntries  = "entries"
	ruleUnused   = "unused-entry"
	ruleGlobals  = "globals"
	ruleLua      = "lua"
	ruleCalled   = "unknown-function"
	ruleDynamic  = "dynamic-command"
	ruleUnknown  = "unknown-command"
	ruleNoScript = "not-in-scripts"
	ruleArity    = "number-of-arguments"
	ruleArgument = "type-of-argument"
	ruleOption   = "unknown-option"
	RuleNumber   = "number-argument"
	RuleReadOnly = "read-only"
	ruleKey      = "undeclared-key"
	ruleChannel  = "undeclared-channel"
	RuleUnits    = "units"
	ruleCached   = "cached"
	ruleTests    = "conditions"
	ruleReply    = "reply"
	ruleErrors   = "error-codes"
	ruleHeld     = "held"
	ruleFenced   = "fenced"
	ruleWaivers  = "unused-waiver"
	ruleOptional = "optional-argument"
	ruleReached  = "unreached-command"
)

// Rules are all rules, each with its demand on a script.
var Rules = []finding.Rule{
	{Name: ruleLimits, Demand: "the script is small enough to be followed to its end"},
	{Name: ruleEntries, Demand: "KEYS and ARGV are used as the header declares them"},
	{Name: ruleUnused, Demand: "each declared entry is used"},
	{Name: ruleGlobals, Demand: "globals are those of Redis 7.0, and the script does not change them"},
	{Name: ruleLua, Demand: "the script has nothing that Lua 5.1 refuses or that always fails"},
	{Name: ruleCalled, Demand: "each function that is called is known"},
	{Name: ruleDynamic, Demand: "each command that is called is known"},
	{Name: ruleUnknown, Demand: "Redis 7.0 has each command"},
	{Name: ruleNoScript, Demand: "scripts may call each command"},
	{Name: ruleArity, Demand: "each command gets as many arguments as it takes"},
	{Name: ruleArgument, Demand: "each argument of a command is a string or a number"},
	{Name: ruleOption, Demand: "Redis 7.0 takes the arguments of each command"},
	{Name: RuleNumber, Demand: "an argument is a number where the command takes nothing else, and a whole one " +
		"where it must be"},
	{Name: RuleReadOnly, Demand: "a script that only reads calls no command that writes"},
	{Name: ruleKey, Demand: "each key of a command comes from KEYS"},
	{Name: ruleChannel, Demand: "each channel is declared"},
	{Name: RuleUnits, Demand: "times and durations have the unit that is taken"},
	{Name: ruleCached, Demand: "what a cached script returns changes only when its key does"},
	{Name: ruleTests, Demand: "conditions and comparisons ask what they seem to ask"},
	{Name: ruleReply, Demand: "the reply has the declared type"},
	{Name: ruleErrors, Demand: "each declared error code is replied"},
	{Name: ruleHeld, Demand: "no write comes before the comparison with the token of the lock, or with what " +
		"its key has while readers share it"},
	{Name: ruleFenced, Demand: "no write comes before the comparison with the fence, which the first write " +
		"stores"},
	{Name: ruleWaivers, Demand: "each waiver waives something"},
	{Name: ruleOptional, Demand: "an optional argument is compared with the empty string before it is used"},
	{Name: ruleReached, Demand: "each call of a command in the text is followed"},
}

// ask notes that the checker asks a rule. Later findings belong to the rule, until the checker asks another.
func (c *checker) ask(rule string) {
	c.rule = rule
	c.report.Asked[rule]++
}
