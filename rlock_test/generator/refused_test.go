package generator

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// refusable is a script as the audit has it.
type refusable struct {
	Name, Text string
	ACL        []string
	Commands   []struct{ Name string }
}

// refusedKeys are the keys of the tables, by the names that the headers have for them.
var refusedKeys = map[string]string{
	"<lock>": contested, "<queue>": queued, "<waiters>": waiters, "<holders>": holders, "<grants>": grants,
	"<counter>": fences, "<lock2>": "{1}other", "<queue2>": queued + "2", "<counter2>": fences + "2",
}

// refusedCalls are the calls of each script: who calls, and with what. Keys have the names of refusedKeys,
// and <me> and <next> are tokens.
var refusedCalls = map[string][]refusedCall{
	"Acquire": {
		{"whole", gen.AcquireParams{
			Lock: "<lock>", Queue: "<queue>", Counter: names("<counter>"), Token: "<me>", TTL: longLease,
		}},
		{"whole", gen.AcquireParams{Lock: "<lock>", Queue: "<queue>", Counter: names("<counter>"), Token: "<me>"}},
		{"whole", gen.AcquireParams{Lock: "<lock>", Queue: "<lock>", Token: "<me>", TTL: longLease}},
	},
	"AcquireAll": {
		{"whole", gen.AcquireAllParams{
			Keys:  names("<lock> <lock2> <queue> <queue2> <counter> <counter2>"),
			Token: "<me>", TTL: longLease, Locks: 2, Queued: true,
		}},
		{"whole", gen.AcquireAllParams{
			Keys:  names("<lock> <lock2> <queue> <queue2> <counter>"),
			Token: "<me>", Locks: 2, Partial: true, Queued: true,
		}},
		{"whole", gen.AcquireAllParams{Keys: names("<lock> <lock2>"), Token: "<me>", TTL: longLease, Locks: 2}},
	},
	"AcquireMany": {
		{"whole", gen.AcquireManyParams{
			Keys:  names("<lock> <lock2> <queue> <queue2> <counter> <counter2>"),
			Words: []string{"<me>", "6000000", "<next>", ""},
		}},
	},
	"Attach": {
		{"whole", gen.AttachParams{Keys: names("<lock>"), Token: "<next>", Keep: true, Former: noneOrMe}},
		{"whole", gen.AttachParams{
			Keys: names("<lock> <lock2>"), Token: "<next>", TTL: time.Minute, Former: noneOrMe,
		}},
		{"whole", gen.AttachParams{Keys: names("<lock> <lock2>"), Token: "<next>", Former: noneOrMe}},
		{"reader", gen.AttachParams{Keys: names("<lock> <holders>"), Token: "<next>", Keep: true, Former: noneOrMe}},
		{"reader", gen.AttachParams{Keys: names("<lock> <holders>"), Token: "<next>", Former: noneOrMe}},
		{"permit", gen.AttachParams{
			Keys: names("<lock> <holders>"), Token: "<next>", TTL: time.Minute, Former: noneOrMe,
		}},
		{"permit", gen.AttachParams{
			Keys: names("<lock> <holders>"), Token: "<next>", TTL: longLease, Former: noneOrMe,
		}},
	},
	"Check": {{"whole", gen.CheckParams{Lock: "<lock>"}}},
	"Extend": {
		{"whole", gen.ExtendParams{Keys: names("<lock>"), TTL: longLease, Tokens: names("<me>")}},
		{"whole", gen.ExtendParams{Keys: names("<lock>"), Tokens: names("<me>")}},
		{"whole", gen.ExtendParams{Keys: names("<lock> <lock2>"), TTL: longLease, Tokens: names("<me>")}},
		{"whole", gen.ExtendParams{Keys: names("<lock> <lock2>"), Tokens: names("<me> <me>")}},
		{"reader", gen.ExtendParams{Keys: names("<lock> <holders>"), TTL: longLease, Tokens: names("<me>")}},
		{"permit", gen.ExtendParams{Keys: names("<lock> <holders>"), Tokens: names("<me>")}},
	},
	"HandOver": {
		{"whole", gen.HandOverParams{
			Lock: "<lock>", Queue: "<queue>", Counter: names("<counter>"), Token: "<me>", Next: "<next>",
			TTL: longLease, Fences: 3,
		}},
		{"whole", gen.HandOverParams{
			Lock: "<lock>", Queue: "<queue>", Counter: names("<counter>"), Token: "<me>", Next: "<next>",
			Fences: 3, Barging: time.Second,
		}},
		{"whole", gen.HandOverParams{
			Lock: "<lock>", Queue: "<lock>", Token: "<me>", Next: "<next>", TTL: longLease, Fences: 3,
		}},
	},
	"Inspect": {
		{"whole", gen.InspectParams{Keys: names("<lock> <lock2>"), Waiters: -1}},
		{"reader", gen.InspectParams{Keys: names("<lock> <holders> <queue>"), Waiters: 9}},
	},
	"RaiseFence": {
		{"whole", gen.RaiseFenceParams{
			Keys: names("<lock> <lock2> <counter> <counter2>"), Token: "<me>", Fence: 9000000000000100, Locks: 2,
		}},
		{"whole", gen.RaiseFenceParams{Keys: names("<lock> <counter>"), Token: "<me>", Fence: 7, Locks: 1}},
	},
	"Release": {
		{"whole", releases(0)}, {"whole", releases(time.Second)}, {"reader", releases(0)},
		{"permit", releases(0)}, {"permit", releases(time.Second)},
	},
	"ReleaseMany": {
		{"whole", gen.ReleaseManyParams{Keys: names("<lock>"), Locks: 1, Tokens: names("<me>")}},
		{"whole", gen.ReleaseManyParams{
			Keys: names("<lock> <lock2> <queue> <queue2>"), Locks: 2, Tokens: names("<me>"),
		}},
		{"whole", gen.ReleaseManyParams{
			Keys: names("<lock> <lock2> <queue> <queue2>"), Locks: 2, Tokens: names("<me> <next>"),
		}},
	},
	"Requeue": {
		{"whole", requeues(longLease, 0)}, {"whole", requeues(0, time.Second)},
		{"reader", requeues(longLease, 0)}, {"permit", requeues(longLease, 0)},
	},
	"Wait": {
		{"whole", waits(gen.WaitHowJoin, longLease)}, {"whole", waits(gen.WaitHowTry, 0)},
		{"whole", waits(gen.WaitHowHeartbeat, longLease)},
		{"whole", waits(gen.WaitHowJoin, longLease, func(p *gen.WaitParams) { p.Since, p.Barging = 4, time.Second })},
		{"reader", waits(gen.WaitHowJoin, longLease)}, {"reader", waits(gen.WaitHowTry, longLease)},
		{"reader", waits(gen.WaitHowHeartbeat, 0)},
		{"permit", waits(gen.WaitHowJoin, 0, func(p *gen.WaitParams) { p.Since = 4 })},
		{"permit", waits(gen.WaitHowTry, longLease)}, {"permit", waits(gen.WaitHowHeartbeat, longLease)},
		{"whole", waits(gen.WaitHowJoin, longLease, func(p *gen.WaitParams) { p.Counter = nil })},
	},
}

type refusedCall struct {
	as     string
	params any
}

const longLease = 100 * time.Minute

// noneOrMe are former tokens, of which one is empty.
var noneOrMe = []string{"", "<me>"}

func names(text string) []string { return strings.Fields(text) }

func releases(barging time.Duration) gen.ReleaseParams {
	return gen.ReleaseParams{
		Lock: "<lock>", Queue: "<queue>", Waiters: "<waiters>", Holders: "<holders>", Grants: grants,
		Counter: names("<counter>"), Token: "<me>", Barging: barging,
	}
}

func requeues(ttl, barging time.Duration) gen.RequeueParams {
	return gen.RequeueParams{
		Lock: "<lock>", Queue: "<queue>", Waiters: "<waiters>", Holders: "<holders>", Grants: grants,
		Counter: names("<counter>"), Token: "<me>", Again: "<next>", TTL: ttl, Process: "p", Barging: barging,
	}
}

func waits(how gen.WaitHow, ttl time.Duration, changes ...func(p *gen.WaitParams)) gen.WaitParams {
	p := gen.WaitParams{
		Lock: "<lock>", Queue: "<queue>", Waiters: "<waiters>", Holders: "<holders>", Grants: grants,
		Counter: names("<counter>"), Token: "<me>", TTL: ttl, Process: "p", How: how,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// What the states have in common. A tilde is a space within a word, <now> is the time of the server, <soon>
// is ten minutes later. w waits for the whole lock, and v for a share; their process listens. One that is
// unheard was not asked to beat: its time is even.
const (
	wWaits   = "ZADD <queue> 6 w;HSET <waiters> w <now>~60000~600000~p;"
	vWaits   = "ZADD <queue> 7 <v>;HSET <waiters> <v> <now>~60000~600000~p;"
	iWait    = "ZADD <queue> 5 <me>;HSET <waiters> <me> <now>~60000~600000~p;"
	behind   = "ZADD <queue> 8 <me>;HSET <waiters> <me> <now>~60000~600000~p;"
	deadWait = "ZADD <queue> 4 dead;HSET <waiters> dead <now>~60000~600000~gone;"
	unheard  = "ZADD <queue> 6 w;HSET <waiters> w 1~99999999999998~600000~p;"
	untold   = "ZADD <queue> 6 w;HSET <waiters> w <now>~60000~600000~;"
	iHave    = "SET <lock> <me> PX 600000;"
	nextHas  = "SET <lock> <next> PX 600000;"
	xHas     = "SET <lock> x PX 600000;"
	shared   = "SET <lock> rlock:<mode>~7 PX 600000;"
	iShare   = shared + "ZADD <holders> <n> 7 <soon> 7~<n>~<me>;"
	weShare  = shared + "ZADD <holders> <n+1> 7 <soon> 7~<n>~<me> <soon> 7~1~<other>;"
	meAndD   = shared + "ZADD <holders> <n+1> 7 200000000000 7~1~<dead> <soon> 7~<n>~<me>;"
	meAndN   = shared + "ZADD <holders> <n+n> 7 <soon> 7~<n>~<me> <soon> 7~<n>~<next>;"
	xShares  = shared + "ZADD <holders> 1 7 <soon> 7~1~<other>;"
	xAndD    = shared + "ZADD <holders> 2 7 200000000000 7~1~<dead> <soon> 7~1~<other>;"
	xHasFour = shared + "ZADD <holders> 4 7 <soon> 7~4~<other>;"
	theDead  = shared + "ZADD <holders> 1 7 200000000000 7~1~<dead>;"
	counted  = "SET <counter> 9000000000000000;"
	longAgo  = "SET <counter> 5;"
	lasting  = "PEXPIRE <queue> 20000;PEXPIRE <waiters> 20000;PEXPIRE <holders> 600000"
)

// refusedStates are those of a lock with its queue and its counter. Those whose names have no comma are the
// simple ones, which are enough where the rest would be more of the same.
var refusedStates = map[string]string{
	"free":                                     "",
	"free, with a counter":                     counted,
	"free, counted long ago":                   longAgo,
	"free, others wait":                        wWaits + vWaits + counted,
	"free, a share is waited for":              vWaits + counted,
	"free, I am first":                         iWait + wWaits + counted,
	"free, I am alone":                         iWait + counted,
	"free, I am behind":                        wWaits + behind + counted,
	"free, I am behind a share":                vWaits + behind + counted,
	"free, the dead are first":                 deadWait + wWaits + longAgo,
	"free, only the dead wait":                 deadWait + counted,
	"free, one who cannot be told is first":    untold + vWaits + counted,
	"free, nothing is heard of the first":      unheard + counted,
	"mine":                                     iHave + counted,
	"mine, others wait":                        iHave + wWaits + vWaits + counted,
	"mine, others wait, the counter is a list": iHave + wWaits + "RPUSH <counter> x;",
	"mine, for ever":                           "SET <lock> <me>;" + longAgo,
	"mine, the dead wait":                      iHave + deadWait + counted,
	"mine, a share is waited for":              iHave + vWaits + counted,
	"mine, nothing is heard of who waits":      iHave + unheard + counted,
	"next's":                                   nextHas + counted,
	"another's":                                xHas + counted,
	"another's, others wait":                   xHas + wWaits + counted,
	"another's, I wait":                        xHas + iWait + wWaits + counted,
	"another's, I wait behind the dead":        xHas + deadWait + iWait + vWaits + counted,
	"shared by me":                             iShare + counted,
	"shared by me, others wait":                iShare + wWaits + vWaits + counted,
	"shared by me, a share is waited for":      iShare + vWaits + counted,
	"shared by me, and the dead":               meAndD + counted,
	"shared by me, and next":                   meAndN + counted,
	"shared by us":                             weShare + counted,
	"shared by us, others wait":                weShare + wWaits + vWaits + counted,
	"shared by us, I wait":                     weShare + iWait + counted,
	"shared by another":                        xShares + counted,
	"shared by another, and the dead":          xAndD + counted,
	"shared by another, others wait":           xShares + wWaits + vWaits + counted,
	"shared by another, a share is waited for": xShares + vWaits + counted,
	"shared by another, I wait":                xShares + iWait + vWaits + counted,
	"shared by another, to the full":           xHasFour + counted,
	"shared by the dead":                       theDead + counted,
	"shared by the dead, others wait":          theDead + wWaits + vWaits + counted,
	"shared, nobody knows by whom":             shared + wWaits + counted,
}

// otherStates are those of the second lock of a set. Each begins with the key that it is about.
var otherStates = map[string][2]string{
	"": {}, "the other is mine": {"<lock2>", "SET <lock2> <me> PX 600000"},
	"the other is another's":    {"<lock2>", "SET <lock2> x PX 600000"},
	"others wait for the other": {"<queue2>", "ZADD <queue2> 5 w"},
}

// excuse is a finding that should not be, and has a reason: for these scripts and refusals. A refusal such as
// -set is a missing right, for which the server ends a script in the middle, and undoes nothing.
type excuse struct {
	scripts, refusals, found *regexp.Regexp
	why                      string
}

func excusing(scripts, refusals, found, why string) excuse {
	whole := func(text string) *regexp.Regexp { return regexp.MustCompile("^(" + cmp.Or(text, ".*") + ")$") }
	return excuse{whole(scripts), whole(refusals), whole(found), why}
}

// excused are what may be found although nothing should change, and why.
var excused = []excuse{
	excusing("", "", "counter: rose", "a fence that nobody has got is harmless: the next one is larger"),
	excusing("", "", ".*: gone dead|holders: (changed|gone) 7|lock: gone rlock:.* 7",
		"whoever looks removes the dead, and counts"),
	excusing("Wait", "", "(queue|waiters): lasts longer|waiters: changed me",
		"a heartbeat counts, whatever comes of the rest"),
	excusing("", "", "waiters: changed w", "one of whom nothing was heard is asked"),
	excusing("Release|Requeue", "", "(queue|waiters): gone me|lost <queue> me",
		"the caller gives up its place"),
	excusing("Release|Requeue|Wait", "-.*",
		"(queue|waiters): gone [vw]|(lock|holders): (new|changed) ([vw]|rlock.*|[0-9]+)",
		"what was free is given to those who wait, and the error is of what comes after that"),
	excusing("Release|Requeue|Wait", "-.*", "(queue|waiters|holders|lock): lasts longer", "so is this"),
	excusing("", "-(hget|spublish|zcard)|without &.*|<waiters>.*", "not told [vw]",
		"its heartbeat finds the grant"),
	excusing("Release|Requeue|Wait", "-zadd", "lost <queue> [vw]|(queue|waiters): gone [vw]",
		"the place cannot be put back; its heartbeat tells, and it goes on with the old score"),
	excusing("AcquireAll", "-(persist|pexpire)", "lock: new me",
		"the locks are taken, which the repetition tells"),
	excusing("Attach", "-(pexpireat|zrem)", "lost <lock> me|holders: (gone me|new next|changed next)",
		"the new token has the share, which the repetition tells"),
	excusing("Release|Requeue", "-(del|pttl|zadd|zcard)", "holders: gone me|lost <lock> me",
		"the share is given up"),
	excusing("Release|Requeue", "-(del|zadd|zcard)", "miscounted",
		"the permits are free when the phase ends"),
	excusing("", "-zadd", "miscounted", "so are those of the dead"),
	excusing("Attach", "-zrem", "miscounted", "the former token is gone with the repetition"),
	excusing("Attach|Extend", "-(set|zadd|zrem)", "(lock|holders): lasts longer",
		"a key may outlast a lease"),
	excusing("Wait", "-(hdel|hget|persist|pexpireat|pttl|set|zcard)",
		"(lock|holders|queue|waiters): (new|gone|changed) me|lost <queue> me",
		"the repetition tells what it has"),
	excusing("Wait", "-zadd", "(queue|waiters): gone me|lost <queue> me",
		"it goes on with another token and the old score"),
}

// refusal is why the server refuses a call; without a name, it does not.
type refusal struct {
	name, state string // what is wrong in the state
	rule        []string
	full        bool // the server has no memory left
}

// refusals derives them from the rule of a script, its commands and the keys of a call.
func refusals(script refusable, keys []string) []refusal {
	var rule []string
	for _, word := range script.ACL {
		if entry := entryRule.FindStringSubmatch(word); entry == nil {
			rule = append(rule, word)
		} else if entry[1] == "&" {
			rule = append(rule, "&"+refusedKeys["<"+entry[2]+">"]+entry[3])
		}
	}
	for _, key := range keys {
		rule = append(rule, "~"+refusedKeys[key])
	}
	without := func(word string) []string {
		return slices.DeleteFunc(slices.Clone(rule), func(w string) bool { return w == word })
	}
	all := []refusal{{rule: rule}, {name: "no memory", rule: rule, full: true}}
	for _, command := range script.Commands {
		word := strings.ReplaceAll(strings.ToLower(command.Name), " ", "|")
		all = append(all, refusal{name: "-" + word, rule: without("+" + word)})
	}
	for _, word := range rule {
		if strings.ContainsAny(word[:1], "~&") {
			all = append(all, refusal{name: "without " + word, rule: without(word)})
		}
	}
	for _, key := range keys {
		wrong := []string{"RPUSH " + key + " x"}
		switch {
		case key == "<grants>":
			wrong = nil // no key has this name
		case strings.HasPrefix(key, "<counter"):
			wrong = append(wrong, "SET "+key+" x", "SET "+key+" 9223372036854775807")
		case key == "<holders>":
			wrong = append(wrong, "ZADD <holders> 1 ann")
		}
		for _, write := range wrong {
			write := ";DEL " + key + ";" + write
			all = append(all, refusal{name: key + write, state: write, rule: rule})
		}
	}
	return all
}

// A call that is refused, in whatever state the lock is, changes nothing but what is excused. Whatever the
// answer is, nobody else loses a lock, a share or a place, and the caller loses and gets what it is told.
//
// It runs beside no other test of the package, because it computes all the time.
func TestRefusedMeansUnchanged(t *testing.T) {
	stdout, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-audit", "-json")
	require.NoError(t, err, stderr)
	var scripts []refusable
	require.NoError(t, json.Unmarshal([]byte(stdout), &scripts))
	require.Len(t, scripts, len(refusedCalls))
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client := e.Start(t).Client(t, func(o *rueidis.ClientOption) { o.DisableCache = true })
		m := matrix{line: newLine(t, client), met: map[string]bool{}}
		m.bad, m.needed = map[string]bool{}, map[string]bool{}
		m.heard = m.listen("p")
		for i, text := range []string{makesState, looksAtAll} {
			m.loaded[i], err = env.Do(t, client, "SCRIPT", "LOAD", text).ToString()
			require.NoError(t, err)
		}
		for _, script := range scripts {
			m.script(script)
			for _, command := range script.Commands {
				word := strings.ReplaceAll(strings.ToLower(command.Name), " ", "|")
				if !m.met[script.Name+" -"+word] && !slices.Contains(spare[script.Name], "+"+word) {
					m.bad["no state in which "+script.Name+" calls "+word] = true
				}
			}
			needs := slices.Contains([]string{"Acquire", "AcquireAll", "RaiseFence", "Wait"}, script.Name)
			require.Equal(t, needs, m.met[script.Name+" no memory"], script.Name)
		}
		t.Logf("%d cells", m.cells)
		require.Empty(t, strings.Join(slices.Sorted(maps.Keys(m.bad)), "\n"))
		for _, e := range excused {
			require.True(t, m.needed[e.why], "nothing is excused because %s", e.why)
		}
	})
}
