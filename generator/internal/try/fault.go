package try

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// The rules of the findings of this package.
var (
	ruleReply  = finding.Rule{Name: "run-reply", Demand: "when the script runs, the reply is what the header declares"}
	ruleRights = finding.Rule{Name: "run-rights", Demand: "when the script runs, the rights that the audit names are enough"}
	ruleRead   = finding.Rule{Name: "run-read", Demand: "a script that only reads changes nothing when it runs"}
	ruleRepeat = finding.Rule{Name: "run-repeat", Demand: "a second call of a retryable script changes nothing"}
	ruleRaise  = finding.Rule{Name: "run-raise", Demand: "when the script runs, it raises no error that the header does not declare"}
	ruleDigits = finding.Rule{Name: "run-digits", Demand: "when the script runs, no number loses its last digits"}
	ruleNever  = finding.Rule{Name: "run-never", Demand: "when the script runs, its reply is not always the same"}
)

// Rules are all rules of this package.
var Rules = []finding.Rule{ruleReply, ruleRights, ruleRead, ruleRepeat, ruleRaise, ruleDigits, ruleNever}

// fault is what is wrong with one call.
type fault struct {
	rule string
	pos  script.Pos
	what string // the same for all inputs that show it
	text string // what happens, and what to write instead
	in   input
	key  string // that changes
	test check
}

func (f fault) same(g fault) bool { return f.rule == g.rule && f.pos == g.pos && f.what == g.what }

// faults makes the call of an input by both versions of the protocol, and returns what is wrong with it.
func (r *runner) faults(ctx context.Context, in input) (list []fault, seen *outcome, err error) {
	retry := r.script.Mode.Retryable && in.strange() == ordinary && !in.foreign()
	for _, client := range []rueidis.Client{r.three, r.two} {
		o, err := r.run(ctx, in, client, retry)
		if err != nil {
			return nil, nil, err
		}
		seen = o
		for _, f := range r.judge(in, o) {
			f.in = in
			if !slices.ContainsFunc(list, f.same) {
				list = append(list, f)
			}
		}
	}
	return list, seen, nil
}

func (r *runner) judge(in input, o *outcome) []fault {
	var list []fault
	add := func(f *fault) {
		if f != nil {
			list = append(list, *f)
		}
	}
	add(r.readOnly(o))
	if o.err != nil {
		add(r.raises(in, o))
		return list
	}
	if in.foreign() || in.strange() == free {
		return list
	}
	if err := judge(r.script.Returns, o.reply); err != nil {
		return append(list, fault{rule: ruleReply.Name, pos: r.script.Returns.Pos, what: shape.ReplaceAllString(err.Error(), "…"), test: mustNotFail,
			text: fmt.Sprintf("the reply %v; return what returns: declares, or declare what is returned", err)})
	}
	if in.strange() == ordinary {
		add(r.digits(in, o))
	}
	if o.again != nil {
		add(r.repeats(o, o.again))
	}
	return list
}

// shape is what of a message may differ between inputs that show the same fault.
var shape = regexp.MustCompile(`-?\d+|"[^"]*"…?`)

func (r *runner) top() script.Pos { return script.Pos{Line: 1, Column: 1} }

func (r *runner) readOnly(o *outcome) *fault {
	if r.script.Mode.Write {
		return nil
	}
	key := changed(o.before, o.after, true)
	if key == "" {
		return nil
	}
	return &fault{rule: ruleRead.Name, pos: r.entry(key), what: key, key: key, test: mustNotChange,
		text: fmt.Sprintf("the script changes %s, and its header says mode: %s; write mode: write", short(key), r.script.Mode)}
}

// entry returns where the header declares a key.
func (r *runner) entry(key string) script.Pos {
	for _, p := range r.script.Keys {
		if name := prefix + p.Name; key == name || p.Variadic && strings.HasPrefix(key, name+":") {
			return p.Pos
		}
	}
	return r.top()
}

// short is a key as the header names it.
func short(key string) string { return strings.TrimPrefix(key, prefix) }

func (r *runner) raises(in input, o *outcome) *fault {
	e := raiseOf(o.err)
	pos := script.Pos{Line: max(e.line, 1), Column: 1}
	if e.line == 0 {
		pos = r.script.Returns.Pos
	}
	if noRight.MatchString(e.text) {
		return &fault{rule: ruleRights.Name, pos: pos, what: "right",
			text: fmt.Sprintf("a user with the rights that the audit names is refused: %s; name the command, the key or the channel in the text", e.text)}
	}
	if in.foreign() || in.strange() == free {
		return nil
	}
	if code := e.undeclared(codes(r.script), r.hints.texts); code != "" {
		return &fault{rule: ruleRaise.Name, pos: pos, what: code, test: mustNotFail,
			text: fmt.Sprintf("the script replies with the error code %s, which the header does not declare; add it to errors:", code)}
	}
	key := changed(o.before, o.after, false)
	if r.script.Waived("dynamic-command") || !e.blames(in, key != "") {
		return nil
	}
	f := &fault{rule: ruleRaise.Name, pos: pos, what: shape.ReplaceAllString(e.text, "…"), test: mustNotFail,
		text: fmt.Sprintf("the script raises %q; %s", e.text, e.mend())}
	if key != "" {
		f.text = fmt.Sprintf("the script raises %q after it has written %s%s; compare before the first write what the rest depends on",
			e.text, short(key), endless(o.after[key]))
	}
	return f
}

// endless says of a key that stays that it does so for ever.
func endless(s stored) string {
	if s.ends == "-1" {
		return ", which stays without an expiry"
	}
	return ""
}

func codes(s *script.Script) []string {
	var list []string
	for _, e := range s.Errors {
		list = append(list, e.Code)
	}
	return list
}

// exponent is a number as tostring writes it from 1e14 on.
var exponent = regexp.MustCompile(`\d\.\d+e\+1\d`)

// digits finds numbers that the script has written with fourteen digits though they have more.
func (r *runner) digits(in input, o *outcome) *fault {
	for _, a := range in.args {
		if len(a.text) > 13 {
			return nil
		}
	}
	f := fault{rule: ruleDigits.Name, pos: r.script.Returns.Pos, what: "digits"}
	where := ""
	if exponent.MatchString(texts(o.reply)) {
		where, f.test = "the reply has", mustNotLose
	} else {
		for _, s := range o.after {
			if s.kind != "zset" && exponent.MatchString(strings.Join(s.values, "\n")) { // the server writes scores so
				where = "the data has"
			}
		}
	}
	if where == "" {
		return nil
	}
	f.text = where + " a number with an exponent, such as 1.7e+15, so its last digits are lost; write it with string.format('%.0f', …)"
	return &f
}

// texts joins all strings and numbers of a reply.
func texts(m rueidis.RedisMessage) string {
	if n, err := m.ToInt64(); err == nil && m.IsInt64() {
		return strconv.FormatInt(n, 10)
	}
	if text, err := m.ToString(); err == nil && m.IsString() {
		return text
	}
	values, _ := m.ToArray()
	var all []string
	for _, v := range values {
		all = append(all, texts(v))
	}
	return strings.Join(all, "\n")
}

// repeats finds what a second call of the same input has changed. Of a script that asks for the time, or makes a
// choice, only what has grown twice is sure.
func (r *runner) repeats(first, second *outcome) *fault {
	f := &fault{rule: ruleRepeat.Name, pos: r.top(), test: mustNotRepeat}
	if second.err != nil {
		e := raiseOf(second.err)
		if slices.Contains(codes(r.script), e.first()) || e.line == 0 {
			return nil
		}
		f.what = "error"
		f.text = fmt.Sprintf("the second of two equal calls fails with %q, and the header says write retryable; write mode: write", e.text)
		return f
	}
	key := changed(first.after, second.after, false)
	if key == "" {
		return nil
	}
	before, once, twice := first.before[key], first.after[key], second.after[key]
	grown := before.size() < once.size() && once.size() < twice.size() && once.kind != "string"
	if !grown && (r.hints.moody || handedOut(once, twice, second)) {
		return nil
	}
	f.pos, f.what, f.key = r.entry(key), key, key
	f.text = fmt.Sprintf("the second of two equal calls changes %s again (%s, then %s), and the header says write retryable; write mode: write",
		short(key), once, twice)
	return f
}

// handedOut reports whether all that a call has changed in a key are numbers that its reply tells. A sequence of ids
// is such a key: a call whose reply is lost costs a number, and nothing worse.
func handedOut(once, twice stored, o *outcome) bool {
	told := strings.Split(texts(o.reply), "\n")
	if len(once.values) != len(twice.values) {
		return false
	}
	for i, v := range twice.values {
		if v != once.values[i] && !slices.Contains(told, v) {
			return false
		}
	}
	return true
}

// String says what is stored, for a message.
func (s stored) String() string {
	switch {
	case s.kind == "":
		return "nothing"
	case s.kind == "string":
		return quote(s.values[0])
	}
	return fmt.Sprintf("a %s of %d", s.kind, s.size())
}
