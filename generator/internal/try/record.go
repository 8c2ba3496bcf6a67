package try

import (
	"regexp"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// fewest is the number of calls that must agree before a reply counts as constant.
const fewest = 4

// record is what all calls of a script have in common.
type record struct {
	calls           int // answered calls
	failures        int
	first           input           // the first that failed
	failure         raise           // of the first
	mixed           bool            // there were different failures
	replies         map[string]bool // the different replies, as far as their type tells
	missing, filled bool            // calls had missing keys, and data
}

func (r *record) add(in input, o *outcome) {
	if o.err != nil {
		e := raiseOf(o.err)
		if r.failures == 0 {
			r.first, r.failure = in, e
		}
		r.failures++
		r.mixed = r.mixed || e.text != r.failure.text
		return
	}
	r.calls++
	if r.replies == nil {
		r.replies = map[string]bool{}
	}
	r.missing, r.filled = r.missing || !in.guessed(), r.filled || in.guessed() && !in.foreign()
	r.replies[describe(o.reply)] = true
}

// faults returns what no single call shows: all calls fail alike, or all have the same reply.
func (r *record) faults(run *runner) []fault {
	s, e := run.script, r.failure
	switch {
	case r.calls == 0 && r.failures >= fewest && !r.mixed && e.avoidable() && !s.Waived("dynamic-command"):
		return fault{rule: ruleRaise, pos: run.place(e), in: r.first, test: mustNotFail}.says(
			"the script raises %q whatever it is called with; %s", e.text, e.mend())
	case r.calls >= fewest && len(r.replies) == 1 && r.missing && r.filled && tells(s, run.hints):
		for reply := range r.replies {
			return fault{rule: ruleNever, pos: s.Returns.Pos}.says(
				"the reply is %s for all data that the keys may have, so it tells nothing; "+
					"compare with what the command replies", reply)
		}
	}
	return nil
}

// taking are functions that read a text in a form that the header does not say.
var taking = regexp.MustCompile(`\b(?:find|g?match|g?sub|byte|cjson|cmsgpack|struct)\b`)

// tells reports whether the reply must differ between data. The reply is a bool, or may be absent. It depends
// only on the data, and on arguments whose values all occur in the runs.
func tells(s *script.Script, h hints) bool {
	t := s.Returns.Type
	return s.Returns.Kind == script.ReturnValue && (t.Optional || t.Kind == script.Scalar && t.Base == "bool") &&
		!h.moody && h.plain() && !taking.MatchString(s.Source) &&
		!slices.ContainsFunc(s.Args, func(p script.Param) bool { return isText(p) || p.Type.Base == "json" })
}
