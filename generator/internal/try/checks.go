package try

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// changes finds data that a read script changed.
func (r *runner) changes(o *outcome) []fault {
	key := changed(o.before, o.after, true)
	if r.script.Mode.Write || key == "" {
		return nil
	}
	return fault{rule: ruleRead, pos: r.entry(key), what: key, key: key, test: mustNotChange}.says(
		"the script changes %s, and its header says mode: %s; write mode: write", short(key), r.script.Mode)
}

// lacks finds a right that the user lacks.
func (r *runner) lacks(o *outcome) []fault {
	if o.err == nil {
		return nil
	}
	e := raiseOf(o.err)
	if !noRight.MatchString(e.text) {
		return nil
	}
	return fault{rule: ruleRights, pos: r.place(e), what: "right"}.says(
		"a user with the rights that the audit names is refused: %s; "+
			"name the command, the key or the channel in the text", e.text)
}

// replies finds a reply that does not fit the header.
func (r *runner) replies(o *outcome) []fault {
	err := judge(r.script.Returns, o.reply)
	if err == nil {
		return nil
	}
	f := fault{rule: ruleReply, pos: r.script.Returns.Pos, what: constant(err.Error()), test: mustNotFail}
	return f.says("the reply %v; return what returns: declares, or declare what is returned", err)
}

// raises finds an error that the script could avoid.
func (r *runner) raises(in input, o *outcome) []fault {
	e := raiseOf(o.err)
	f := fault{rule: ruleRaise, pos: r.place(e), what: constant(e.text), test: mustNotFail}
	if code := e.undeclared(codes(r.script), r.hints.texts); code != "" {
		f.what = code
		return f.says("the script replies with the error code %s, which the header does not declare; "+
			"add it to errors:", code)
	}
	key := changed(o.before, o.after, false)
	switch {
	case r.script.Waived("dynamic-command") || !e.blames(in, key != ""):
		return nil
	case key == "":
		return f.says("the script raises %q; %s", e.text, e.mend())
	}
	stays := ""
	if o.after[key].ends == never {
		stays = ", which stays without an expiry"
	}
	return f.says("the script raises %q after it has written %s%s; "+
		"compare before the first write what the rest depends on", e.text, short(key), stays)
}

// place returns where the script raised an error. If that is unknown, it returns the place of returns: in the
// header.
func (r *runner) place(e raise) script.Pos {
	if e.line == 0 {
		return r.script.Returns.Pos
	}
	return script.Pos{Line: e.line, Column: 1}
}

// endures finds a key that gets an expiry from one call, and loses the expiry in an equal call.
func (r *runner) endures(o *outcome) []fault {
	for _, key := range slices.Sorted(maps.Keys(o.after)) {
		before, known := o.before[key]
		if known && before.ends != never && o.after[key].ends == never && !r.hints.persists {
			return fault{rule: ruleExpiry, pos: r.entry(key), what: key}.says("%s gets an expiry by the first call, "+
				"and loses it by an equal one; set it on each way, or keep it as by SET … KEEPTTL", short(key))
		}
	}
	return nil
}

// exponent matches a number in the text of tostring, from 1e14 on.
var exponent = regexp.MustCompile(`\d\.\d+e\+1\d`)

// loses finds numbers that the script writes with fourteen digits, although they have more.
func (r *runner) loses(in input, o *outcome) []fault {
	if slices.ContainsFunc(in.args, func(a argWord) bool { return len(a.text) > 13 }) {
		return nil // it may be a number with more digits
	}
	f := fault{rule: ruleDigits, pos: r.script.Returns.Pos}
	where := ""
	for _, s := range o.after {
		if s.kind != "zset" && exponent.MatchString(strings.Join(s.values, "\n")) { // servers write scores so
			where = "the data has"
		}
	}
	if exponent.MatchString(texts(o.reply)) {
		where, f.test = "the reply has", mustNotLose
	}
	if where == "" {
		return nil
	}
	return f.says("%s a number with an exponent, such as 1.7e+15, so its last digits are lost; "+
		"write it with string.format('%%.0f', …)", where)
}

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

// repeats finds data that a second equal call changes. A script that asks for the time, or makes a choice,
// may change data again. For such a script only data that grew twice is a finding.
func (r *runner) repeats(first, second *outcome) []fault {
	f := fault{rule: ruleRepeat, pos: top, test: mustNotRepeat}
	if second.err != nil {
		e := raiseOf(second.err)
		if e.line == 0 || slices.Contains(codes(r.script), e.first()) {
			return nil
		}
		f.what = "error"
		return f.says("the second of two equal calls fails with %q, and the header says write retryable; "+
			"write mode: write", e.text)
	}
	key := changed(first.after, second.after, false)
	before, once, twice := first.before[key], first.after[key], second.after[key]
	grown := before.size() < once.size() && once.size() < twice.size() && once.kind != "string"
	if key == "" || !grown && (r.hints.moody || handedOut(once, twice, second)) {
		return nil
	}
	f.pos, f.what, f.key = r.entry(key), key, key
	return f.says("the second of two equal calls changes %s again (%s, then %s), "+
		"and the header says write retryable; write mode: write", short(key), once, twice)
}

// handedOut reports whether a call changes only numbers that are in its reply. A sequence of ids is an
// example. If such a reply is lost, the second call only skips a number.
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
