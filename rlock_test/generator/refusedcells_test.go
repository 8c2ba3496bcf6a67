package generator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// cell is one call in one state with one refusal.
type cell struct {
	script, as, keys, state string
	args                    []string
	params                  any
	refusal                 refusal
	tokens                  *strings.Replacer
}

func (c cell) String() string {
	return fmt.Sprintf("%s as %s (%s) %q, %s, %s", c.script, c.as, c.keys, c.args, c.state, c.refusal.name)
}

// tells returns what an answer tells: who has what, and what the caller has no more. An error tells nothing,
// nor does a script that only reads.
func (m *matrix) tells(c cell, reply rueidis.RedisResult) (has, gone []string) {
	if failed(reply) != nil {
		return nil, nil
	}
	say := func(to *[]string, ok bool, what ...string) {
		for _, w := range what {
			if ok && (!strings.Contains(w, "2>") || strings.Contains(c.keys, "<lock2>")) {
				*to = append(*to, c.tokens.Replace(w))
			}
		}
	}
	var err error
	switch p := c.params.(type) {
	case gen.AcquireParams:
		var r gen.AcquireResult
		r, err = env.Decode(m.client, m.scripts.Acquire, p, reply)
		say(&has, r.Outcome == 1, "<lock> <me>")
	case gen.WaitParams:
		var r gen.WaitResult
		r, err = env.Decode(m.client, m.scripts.Wait, p, reply)
		say(&has, r.Granted, "<lock> <me>")
		say(&has, r.Score > 0, "<queue> <me>")
	case gen.AcquireAllParams:
		var r gen.AcquireAllResult
		r, err = env.Decode(m.client, m.scripts.AcquireAll, p, reply)
		say(&has, r.Acquired, "<lock> <me>", "<lock2> <me>")
		say(&has, r.Held == 2 && p.Partial, "<lock> <me>")
	case gen.AcquireManyParams:
		var r []gen.AcquireManyItem
		r, err = env.Decode(m.client, m.scripts.AcquireMany, p, reply)
		for i, item := range r {
			say(&has, item.Outcome == 1, []string{"<lock> <me>", "<lock2> <next>"}[i])
		}
	case gen.AttachParams:
		var r gen.AttachResult
		r, err = env.Decode(m.client, m.scripts.Attach, p, reply)
		say(&has, r.Position == 0, "<lock> <next>", "<lock2> <next>")
		say(&gone, r.Position == 0, "<lock> <me>", "<lock2> <me>")
	case gen.ExtendParams:
		var lost []int64
		lost, err = env.Decode(m.client, m.scripts.Extend, p, reply)
		say(&has, len(lost) == 0, "<lock> <me>", "<lock2> <me>")
	case gen.HandOverParams:
		var r gen.HandOverResult
		r, err = env.Decode(m.client, m.scripts.HandOver, p, reply)
		say(&has, r.HandedOver, "<lock> <next>")
		say(&gone, r.HandedOver, "<lock> <me>")
	case gen.RaiseFenceParams:
		var lost int64
		lost, err = env.Decode(m.client, m.scripts.RaiseFence, p, reply)
		say(&has, lost == 0, "<lock> <me>", "<lock2> <me>")
	case gen.ReleaseParams:
		var freed int64
		freed, err = env.Decode(m.client, m.scripts.Release, p, reply)
		say(&gone, freed == 1, "<lock> <me>")
	case gen.ReleaseManyParams:
		var freed []int64
		freed, err = env.Decode(m.client, m.scripts.ReleaseMany, p, reply)
		for i, n := range freed {
			say(&gone, n == 1, []string{"<lock> <me>", "<lock2> <me>"}[i])
		}
	case gen.RequeueParams:
		var r gen.RequeueResult
		r, err = env.Decode(m.client, m.scripts.Requeue, p, reply)
		say(&gone, r.Freed, "<lock> <me>")
		say(&has, r.Granted, "<lock> <next>")
		say(&has, r.Score > 0, "<queue> <next>")
	}
	require.NoError(m, err, c)
	return has, gone
}

// The first of these scripts empties the server and makes a state. Both return what the server has: its clock
// in milliseconds, and the name, the type, the milliseconds left and the values of each key.
const (
	makesState = `
for _, key in ipairs(redis.call('KEYS', '*')) do
  redis.call('DEL', key)
end
local now = redis.call('TIME')[1] * 1000
for _, command in ipairs(ARGV) do
  command = string.gsub(command, '<now>', string.format('%.0f', now))
  command = string.gsub(command, '<soon>', string.format('%.0f', now + 600000))
  local words = {}
  for word in string.gmatch(command, '[^ ]+') do
    words[#words + 1] = string.gsub(word, '~', ' ')
  end
  redis.call(unpack(words))
end` + looksAtAll
	looksAtAll = `
local time, all = redis.call('TIME'), {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, values = redis.call('TYPE', key).ok, {}
  if kind == 'string' then
    values = {'', redis.call('GET', key)}
  elseif kind == 'zset' then
    values = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then
    values = redis.call('HGETALL', key)
  end
  all[#all + 1] = {key, kind, tostring(redis.call('PTTL', key)), unpack(values)}
end
return {{string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}, unpack(all)}`
)

// all is what a server has at one time.
type all struct {
	now  float64
	keys map[string]kept
}

type kept struct {
	kind   string
	left   float64
	values map[string]string // scores by member, texts by field, or one text
}

func (m *matrix) read(reply rueidis.RedisResult) all {
	parts, err := reply.ToArray()
	require.NoError(m, err)
	a := all{keys: map[string]kept{}}
	for i, part := range parts {
		words, err := part.AsStrSlice()
		require.NoError(m, err)
		if i == 0 {
			a.now = number64(words[0])
			continue
		}
		k := kept{words[1], number64(words[2]), map[string]string{}}
		for v := 3; v < len(words); v += 2 {
			k.values[words[v]] = words[v+1]
		}
		a.keys[words[0]] = k
	}
	return a
}

func number64(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// has returns who has which lock until when, and which place; the dead have nothing. The second result is
// whether the permits in use are those of all holders.
func (a all) has() (map[string]float64, bool) {
	has, used, sum := map[string]float64{}, 0.0, 0.0
	for _, key := range []string{"<lock>", "<lock2>", "<queue>", "<queue2>"} {
		k := a.keys[refusedKeys[key]]
		value := strings.Replace(k.values[""], "permits", "readers", 1)
		phase, isShared := strings.CutPrefix(value, "rlock:readers ")
		switch {
		case k.kind == "string" && isShared:
			for member, score := range a.keys[holders].values {
				if member == phase {
					used = number64(score)
				} else if words := strings.Fields(member); words[0] == phase {
					sum += number64(words[1])
					if number64(score) > a.now {
						has[key+" "+words[2]] = number64(score)
					}
				}
			}
		case k.kind == "string" && k.left < 0:
			has[key+" "+k.values[""]] = math.Inf(1)
		case k.kind == "string":
			has[key+" "+k.values[""]] = a.now + k.left
		case k.kind == "zset":
			for token, score := range k.values {
				if token != "dead" {
					has[key+" "+token] = number64(score)
				}
			}
		}
	}
	return has, used == sum
}

// short is the end of a token, or of what has no token.
func short(text string) string { return text[strings.LastIndexAny(text, " :")+1:] }

// changes tells in which ways the server is another than before.
func (a all) changes(before all) (found []string) {
	for name, key := range refusedKeys {
		name = strings.Trim(name, "<2>")
		was, is := before.keys[key], a.keys[key]
		for member, value := range was.values {
			now, still := is.values[member]
			switch {
			case name == "counter" && still && number64(value) < number64(now):
				found = append(found, "counter: rose")
			case !still:
				found = append(found, name+": gone "+cmp.Or(short(member), value))
			case value != now:
				found = append(found, name+": changed "+cmp.Or(short(member), now))
			}
		}
		for member, now := range is.values {
			if _, known := was.values[member]; !known && name == "counter" {
				found = append(found, "counter: rose")
			} else if !known {
				found = append(found, name+": new "+cmp.Or(short(member), now))
			}
		}
		if left := is.left - was.left; was.kind == "" || is.kind == "" {
			continue
		} else if left > 5000 && was.left >= 0 || is.left < 0 && was.left >= 0 {
			found = append(found, name+": lasts longer")
		} else if left < -5000 || was.left < 0 && is.left >= 0 {
			found = append(found, name+": lasts shorter")
		}
	}
	return found
}

// matrix runs the cells on one server.
type matrix struct {
	line
	loaded   [2]string // makesState and looksAtAll
	heard    <-chan string
	cells    int
	met, bad map[string]bool // refusals that scripts have met, and what is wrong
	needed   map[string]bool // excuses, by their reasons
}

// script runs all cells of a script.
func (m *matrix) script(script refusable) {
	sha, err := env.Do(m.T, m.client, "SCRIPT", "LOAD", script.Text).ToString()
	require.NoError(m, err)
	for _, call := range refusedCalls[script.Name] {
		tokens, shares, counts := "", "rlock:share:0:1:", "readers 1 2 2"
		switch call.as {
		case "reader":
			tokens = shares
		case "permit":
			tokens, shares, counts = "rlock:share:4:2:", "rlock:share:4:2:", "permits 2 3 4"
		}
		var named []string
		for i, word := range strings.Fields(counts) {
			named = append(named, []string{"<mode>", "<n>", "<n+1>", "<n+n>"}[i], word)
		}
		for _, who := range []string{"me", "next"} {
			named = append(named, "<"+who+">", tokens+who)
		}
		for _, who := range []string{"other", "dead", "v"} {
			named = append(named, "<"+who+">", shares+who)
		}
		words := env.WordsOf(m.T, m.client, call.params)
		require.Equal(m, script.Name, words.Script)
		c := cell{
			script: script.Name, as: call.as, args: words.Args, params: call.params,
			tokens: strings.NewReplacer(named...),
		}
		c.keys = strings.Replace(strings.Join(words.Keys, " "), grants, "<grants>", 1)
		keys := slices.Sorted(slices.Values(strings.Fields(c.keys)))
		for _, c.refusal = range refusals(script, slices.Compact(keys)) {
			m.group(c, sha)
		}
	}
}

// group runs all states of a call with one refusal, in one pipeline, which becomes another user for the call.
func (m *matrix) group(c cell, sha string) {
	var cells []cell
	var commands rueidis.Commands
	do := func(words ...string) { commands = append(commands, m.client.B().Arbitrary(words...).Build()) }
	call, names := []string{"EVALSHA", sha, strconv.Itoa(len(strings.Fields(c.keys)))}, []string{}
	for name, key := range refusedKeys {
		names = append(names, name, key)
	}
	keys := strings.NewReplacer(names...)
	call = append(call, strings.Fields(keys.Replace(c.keys))...)
	for _, arg := range c.args {
		call = append(call, c.tokens.Replace(arg))
	}
	limit, absent := "0", "SET <lock> <me>" // who shares a lock does not have it, and the other way round
	if c.refusal.full {
		limit = "1"
	}
	if c.as == "whole" {
		absent = "~<me>"
	}
	do(append([]string{"ACL", "SETUSER", "app", "reset", "on", "nopass"}, c.refusal.rule...)...)
	do("ACL", "LOG", "RESET")
	for _, state := range slices.Sorted(maps.Keys(refusedStates)) {
		simple, text := !strings.Contains(state, ","), refusedStates[state]
		if strings.Contains(text, absent) || !simple && strings.HasPrefix(c.refusal.name, "without ~") {
			continue
		}
		for other, more := range otherStates {
			if other != "" && !(simple && strings.Contains(c.keys, more[0])) {
				continue
			}
			c.state = strings.TrimSuffix(state+", "+other, ", ")
			cells = append(cells, c)
			text := strings.Trim(text+lasting+";"+more[1], ";") + c.refusal.state
			text = keys.Replace(c.tokens.Replace(text))
			do(append([]string{"EVALSHA", m.loaded[0], "0"}, strings.Split(text, ";")...)...)
			do("CONFIG", "SET", "maxmemory", limit)
			do("AUTH", "app", "")
			do(call...)
			do("AUTH", "default", "")
			do("EVALSHA", m.loaded[1], "0")
			do("SPUBLISH", grants+"p", "end")
			do("CONFIG", "SET", "maxmemory", "0")
			do(call...)
			do("SPUBLISH", grants+"p", "end")
		}
	}
	do("ACL", "LOG")
	dedicated, release := m.client.Dedicate()
	defer release()
	done := make(chan []rueidis.RedisResult, 1)
	go func() { done <- dedicated.DoMulti(m.Context(), commands...) }()
	told := make([]string, 2*len(cells)) // of each call and of its repetition
	for i := range told {
		for message := env.Receive(m.T, m.heard); message != "end"; message = env.Receive(m.T, m.heard) {
			told[i] += message + "\n"
		}
	}
	replies := env.Receive(m.T, done)
	log, err := replies[len(replies)-1].ToArray()
	require.NoError(m, err)
	refused := len(log) > 0
	for i, c := range cells {
		r := replies[2+10*i : 2+10*i+10]
		refused = refused || c.refusal.full && strings.HasPrefix(fmt.Sprint(failed(r[3])), "OOM")
		require.NoError(m, errors.Join(r[1].Error(), r[2].Error(), r[4].Error(), r[6].Error(), r[7].Error()))
		m.check(c, m.read(r[0]), m.read(r[5]), r[3], r[8], told[2*i])
	}
	if refused {
		m.met[c.script+" "+c.refusal.name] = true
	}
	m.cells += len(cells)
}

// failed returns the error that the answer is.
func failed(reply rueidis.RedisResult) error {
	if err := reply.Error(); !rueidis.IsRedisNil(err) {
		return err
	}
	return nil
}

// check looks at what one call has left, and at whether the answers tell it.
func (m *matrix) check(c cell, before, after all, reply, again rueidis.RedisResult, told string) {
	had, counted := before.has()
	has, counts := after.has()
	claims, gone := m.tells(c, reply)
	later, _ := m.tells(c, again)
	var found []string
	if err := failed(reply); err != nil {
		found = after.changes(before)
		if c.refusal.name == "" && !strings.Contains(c.state, "a list") {
			found = append(found, "an error: "+err.Error())
		}
	}
	if counted && !counts {
		found = append(found, "miscounted")
	}
	name := func(what string) string {
		key, token, _ := strings.Cut(what, " ")
		return key + " " + short(token)
	}
	for _, what := range claims {
		if _, ok := has[what]; !ok {
			found = append(found, "a lie about "+name(what))
		}
	}
	for _, what := range gone {
		if _, ok := has[what]; ok {
			found = append(found, "not gone "+name(what))
		}
	}
	own := func(what string) bool { return short(what) == "me" || short(what) == "next" }
	for what, end := range had {
		now, ok := has[what]
		if token, place := strings.CutPrefix(what, "<queue> "); place && !ok {
			now, ok = has["<lock> "+token]
			now = math.Max(now, end)
			hears := !own(what) && !strings.Contains(c.state, "cannot be told")
			if ok && hears && !strings.Contains(told, token) {
				found = append(found, "not told "+short(token))
			}
		}
		if !ok && !slices.Contains(gone, what) {
			found = append(found, "lost "+name(what))
		} else if ok && !own(what) && now < end-5000 {
			found = append(found, "shorter "+name(what))
		}
	}
	for what := range has {
		key, token, _ := strings.Cut(what, " ")
		_, ok := had[what]
		_, waited := had["<queue> "+token]
		tells := func(claim string) bool { return strings.HasSuffix(claim, " "+token) }
		ok = ok || slices.Contains(claims, what) || slices.ContainsFunc(later, tells)
		if !ok && (own(what) || !waited || key != "<lock>") {
			found = append(found, "got untold "+name(what))
		}
	}
	for message := range strings.Lines(told) {
		words := strings.Fields(message)
		if _, ok := has["<lock> "+words[len(words)-1]]; !ok && words[0] != "beat" {
			found = append(found, "told in vain "+message)
		}
	}
	for _, what := range found {
		excuse := slices.IndexFunc(excused, func(e excuse) bool {
			matches := e.scripts.MatchString(c.script) && e.refusals.MatchString(c.refusal.name)
			return matches && e.found.MatchString(what)
		})
		if excuse < 0 {
			m.bad[what+": "+c.String()] = true
		} else {
			m.needed[excused[excuse].why] = true
		}
	}
}
