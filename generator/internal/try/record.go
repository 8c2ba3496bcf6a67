package try

import (
	"fmt"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// fewest is how many calls must agree before their replies count as always the same.
const fewest = 4

// record is what all calls of a script had in common.
type record struct {
	calls, failed   int
	first           input
	failure         raise
	replies         map[string]bool // what the replies were, as far as their type tells two apart
	missing, filled bool            // calls had missing keys, and data
}

func (r *record) add(in input, o *outcome) {
	if in.foreign() || in.strange() == free {
		return
	}
	if o.err != nil {
		if r.failed == 0 {
			r.first, r.failure = in, raiseOf(o.err)
		}
		r.failed++
		return
	}
	r.calls++
	if r.replies == nil {
		r.replies = map[string]bool{}
	}
	r.missing, r.filled = r.missing || !in.guessed(), r.filled || in.guessed()
	text := describe(o.reply)
	if o.reply.IsArray() || o.reply.IsMap() { // they may differ in their values
		text = fmt.Sprint(r.calls)
	}
	r.replies[text] = true
}

// faults returns what no single call shows: that all fail, or that all have the same reply.
func (r *record) faults(run *runner, others []fault) []fault {
	s := run.script
	switch {
	case len(others) > 0:
	case r.calls == 0 && r.failed >= 3 && r.failure.line > 0 && !slices.Contains(ofServers, r.failure.first()):
		return []fault{{rule: ruleRaise.Name, pos: script.Pos{Line: r.failure.line, Column: 1}, in: r.first, test: mustNotFail,
			text: fmt.Sprintf("the script raises %q whatever it is called with; write words that the command takes", r.failure.text)}}
	case r.calls >= fewest && !run.hints.moody && len(r.replies) == 1 && r.missing && r.filled && s.Returns.Kind == script.ReturnValue:
		for reply := range r.replies {
			return []fault{{rule: ruleNever.Name, pos: s.Returns.Pos, in: run.space.input(run.space.plainest()),
				text: fmt.Sprintf("each of %d calls with other data and arguments was answered with %s, so the reply tells nothing; "+
					"compare with what the command replies", r.calls, reply)}}
		}
	}
	return nil
}
