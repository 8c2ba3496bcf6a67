package try

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// The rules of the findings of this package.
const (
	ruleReply  = "run-reply"
	ruleRights = "run-rights"
	ruleRead   = "run-read"
	ruleRepeat = "run-repeat"
	ruleRaise  = "run-raise"
	ruleExpiry = "run-expiry"
	ruleDigits = "run-digits"
	ruleNever  = "run-never"
)

// Rules are all rules of this package, each with its demand on a running script.
var Rules = []finding.Rule{
	{Name: ruleReply, Demand: "each reply of a run is what the header declares"},
	{Name: ruleRights, Demand: "the rights that the audit names are enough for a run"},
	{Name: ruleRead, Demand: "a run of a script that only reads changes nothing"},
	{Name: ruleRepeat, Demand: "a second run of a retryable script changes nothing more"},
	{Name: ruleRaise, Demand: "a run raises no error that the script could have avoided"},
	{Name: ruleExpiry, Demand: "a second run takes no expiry away that the first has set"},
	{Name: ruleDigits, Demand: "in a run no number loses its last digits"},
	{Name: ruleNever, Demand: "the reply is not the same in all runs"},
}

// fault is one thing that is wrong with a call.
type fault struct {
	rule string
	pos  script.Pos
	what string // the same for all inputs that show the fault
	text string // what happens, and what to write instead
	in   input
	key  string // the key that changes
	test check
}

func (f fault) same(g fault) bool { return f.rule == g.rule && f.pos == g.pos && f.what == g.what }

// says completes the fault with its message.
func (f fault) says(format string, args ...any) []fault {
	f.text = fmt.Sprintf(format, args...)
	return []fault{f}
}

// faults makes the call of an input in both versions of the protocol, and returns its faults.
func (r *runner) faults(ctx context.Context, in input) (list []fault, seen *outcome, err error) {
	again := r.script.Mode.Retryable && in.strange() == ordinary && !in.foreign()
	for _, client := range []rueidis.Client{r.three, r.two} {
		seen, err = r.run(ctx, in, client, again)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range r.judge(in, seen) {
			f.in = in
			if !slices.ContainsFunc(list, f.same) {
				list = append(list, f)
			}
		}
	}
	return list, seen, nil
}

// judge returns the faults of a call. Foreign data and free values excuse every fault, except a change by a
// read script and a missing right.
func (r *runner) judge(in input, o *outcome) []fault {
	list := slices.Concat(r.changes(o), r.lacks(o))
	if in.foreign() || in.strange() == free {
		return list
	}
	if o.err != nil {
		return append(list, r.raises(in, o)...)
	}
	if f := r.replies(o); f != nil {
		return append(list, f...)
	}
	if in.strange() != ordinary {
		return list
	}
	list = append(list, r.loses(in, o)...)
	if in.earlier > 0 && !in.guessed() && r.space.plain(in).same(in) {
		list = append(list, r.endures(o)...)
	}
	if o.again != nil {
		list = append(list, r.repeats(o, o.again)...)
	}
	return list
}

// varying matches the parts of a message that may differ between inputs with the same fault.
var varying = regexp.MustCompile(`-?\d+|"[^"]*"…?`)

func constant(message string) string { return varying.ReplaceAllString(message, "…") }

// top is the place of a fault that belongs to no line of the header.
var top = script.Pos{Line: 1, Column: 1}

// entry returns the place in the header that declares a key.
func (r *runner) entry(key string) script.Pos {
	for _, p := range r.script.Keys {
		if name := prefix + p.Name; key == name || p.Variadic && strings.HasPrefix(key, name+":") {
			return p.Pos
		}
	}
	return top
}

// short is the name of a key in the header.
func short(key string) string { return strings.TrimPrefix(key, prefix) }

func codes(s *script.Script) []string {
	var list []string
	for _, e := range s.Errors {
		list = append(list, e.Code)
	}
	return list
}
