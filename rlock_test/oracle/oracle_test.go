package oracle

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

var (
	length   = flag.Duration("length", 0, "how long to look for holes; 0: as many programs as -programs says")
	programs = flag.Int("programs", 0,
		"how many programs to write; 0: 2,000 with -short, else 12,000, or as many as five minutes allow, but no "+
			"fewer than 2,000")
	seed  = flag.Uint64("oracle.seed", usual, "of the programs; 0: from the clock")
	first = flag.Int("first", 0,
		"the number of the first program, to see one again; it must be a multiple of 500")
	kinds  = flag.Int("kinds", 5, "how many kinds of holes end the search")
	alarms = flag.Bool("alarms", false, "show programs without a mistake that are refused")
)

// usual is the seed unless -oracle.seed says otherwise, so that a change of the generator is
// held against the programs that others were held against. make oracle draws a seed.
const usual = 1

func TestOracle(t *testing.T) {
	const few, many, usually = 2_000, 12_000, 5 * time.Minute
	from, least, most := *seed, *programs, *programs
	switch {
	case most == 0 && testing.Short():
		least, most = few, few
	case most == 0:
		least, most = few, many
	}
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	if *first%batch != 0 {
		t.Fatalf("-first=%d is no multiple of %d", *first, batch)
	}
	// Not into the test's log, which is lost when a test takes too long.
	fmt.Fprintf(os.Stderr, "the oracle's seed is %d\n", from)
	start := time.Now()
	found, err := hunt{build(t), startAll(t), from, *first, true}.search(t.Context(), func(r *report) bool {
		if len(r.kinds) >= *kinds {
			return true
		}
		if *length > 0 {
			return time.Since(start) > *length
		}
		return r.programs() >= most || r.programs() >= least && time.Since(start) > usually
	})
	if err != nil {
		t.Fatalf("seed %d: %v", from, err)
	}
	t.Log(found)
	if *alarms {
		t.Log(found.alarmed())
	}
	for _, h := range found.holes {
		t.Error(h)
	}
	if found.accepted < found.programs()/4 {
		t.Errorf("seed %d: the generator accepts %d of %d programs, so that few are tried", from, found.accepted,
			found.programs())
	}
}

func startAll(tb testing.TB) []*server {
	var servers []*server
	for _, e := range env.Engines(tb) {
		servers = append(servers, start(tb, e))
	}
	return servers
}

// Each flaw takes from the generator something without which it proves too much.
func TestPlanted(t *testing.T) {
	env.Long(t)
	const (
		analyze = "generator/internal/analyze/"
		check   = "generator/internal/check/"
		encode  = "redislua/luaimpl/call.go"
	)
	flaws := []struct {
		flaw
		kinds []string // of the holes that it makes
		at    int      // the number of a program that shows it, to begin with; -1: it takes many programs
	}{
		{flaw{"what may be redis.call or something else is something else", analyze + "call.go",
			"\t\teach := st\n",
			"\t\tif _, is := k.(Command); is && len(callee.kinds) > 1 {\n\t\t\tcontinue\n\t\t}\n\t\teach := st\n"},
			[]string{"rights", "read only"}, 8},
		{flaw{"a key of which nothing is known is one of KEYS", check + "commands.go",
			"\t\tdefault:\n\t\t\tforeign = true",
			"\t\tcase analyze.Unknown, analyze.Text:\n\t\tdefault:\n\t\t\tforeign = true"},
			[]string{"rights"}, 100},
		{flaw{"what is stored under a computed name is forgotten", analyze + "table.go",
			"u.Rest, u.Names = Join(t.Rest, present(v)), Join(t.Names, Of(k))\n\treturn &u",
			"return t"},
			[]string{"rights", "read only", "reply", "argument"}, 1676},
		{flaw{"a list that is stored to by any index has no gap", analyze + "gap.go",
			"case !known || n < 1 || n > t.certain()+1:",
			"case false:"},
			[]string{"reply"}, 369},
		{flaw{"a number that is the length of a list on one way is so on all", analyze + "lengths.go",
			"if known && also && d == e {",
			"if known && also && d <= max(d, e) {"},
			[]string{"reply"}, 881},
		{flaw{"what a pcall answered holds when it is called again", analyze + "call.go",
			"\tst.age(func(call int) bool { return call == id })\n",
			""},
			[]string{"rights", "argument", "error", "reply"}, 58591},
		{flaw{"a guard on one way is a guard on all", analyze + "state.go",
			"case p == Unchecked || q == Unchecked:\n\t\treturn Unchecked",
			"case p == Unchecked || q == Unchecked:\n\t\treturn max(p, q)"},
			[]string{"guard", "fence"}, 264},
		{flaw{"a fence that is stored on some ways is stored", check + "guard.go",
			"if len(c.facts.Owed) == 0 {",
			"if len(c.facts.Owed) >= 0 {"},
			[]string{"fence"}, 4067},
		{flaw{"of several commands, the first is in the audit", check + "commands.go",
			"for _, name := range names {\n\t\t\tc.command(name, call)",
			"for _, name := range names[:1] {\n\t\t\tc.command(name, call)"},
			[]string{"rights", "read only", "error"}, 8},
		{flaw{"a division has no fraction", analyze + "number.go",
			"class = Fraction",
			"class = Integer"},
			[]string{"reply"}, 1491},
		{flaw{"a duration has any unit", check + "words.go",
			"\t\tc.unit(shown, w, places, m)\n",
			""},
			[]string{"lease"}, 205},
		{flaw{"a cache may hold what changes", check + "commands.go",
			"\tc.ask(ruleCached)\n\tswitch random := ",
			"\tc.ask(ruleCached)\n\tif true {\n\t\treturn\n\t}\n\tswitch random := "},
			[]string{"cached"}, 432},
		{flaw{"a float is sent with an exponent", encode,
			"strconv.FormatFloat(f, 'f', -1, 64)",
			"strconv.FormatFloat(f, 'g', -1, 64)"},
			[]string{"encode"}, 1574},
		{flaw{"what is no number is sent", encode,
			"if math.IsNaN(f) || math.IsInf(f, 0) {",
			"if false && math.IsNaN(f) {"},
			[]string{"encode"}, 7026},
		{flaw{"an empty key is sent", encode,
			"case key != \"\":",
			"case key != \"\" || true:"},
			[]string{"encode"}, 2},
		{flaw{"an absent duration is none that a reply may have", "generator/internal/emit/types.go",
			"if t.Base == \"duration\" || t.Base == \"time\" {",
			"if t.Base == \"time\" {"},
			[]string{"decode"}, 60},
		{flaw{"the values of a struct are taken in another order", "generator/internal/emit/codec.go",
			"jen.Id(\"values\").Index(jen.Lit(i))",
			"jen.Id(\"values\").Index(jen.Lit(len(t.Fields) - 1 - i))"},
			[]string{"decode"}, 1},
		{flaw{"KEYS as a whole is of an unknown length", check + "check.go",
			"\tif variadic == 0 {\n",
			"\tif len(used.Whole) > 0 && variadic == 0 && name == \"KEYS\" {\n\t\tc.once(name, used.Whole[0], \"its " +
				"length is not known\")\n\t}\n\tif variadic == 0 {\n"},
			[]string{"refusal"}, -1},
		{flaw{"a fragment that is included twice stands twice", "generator/internal/script/include.go",
			"case slices.Contains(s.includes, name):\n",
			"case false && slices.Contains(s.includes, name):\n"},
			[]string{"text"}, 52},
		{flaw{"a script with waivers is called proved", "generator/internal/audit/audit.go",
			"Unproved: unproved(s), ACLWhole",
			"Unproved: unproved(s)[:0], ACLWhole"},
			[]string{"audit"}, 101},
		{flaw{"a channel is in no rule", "generator/internal/audit/audit.go",
			"if !slices.Contains(words, word) {",
			"if false {"},
			[]string{"rights"}, 27},
	}
	servers := startAll(t)
	whole := build(t)
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			g := build(t, f.flaw)
			isShown := func(kinds map[string]int) bool {
				return slices.ContainsFunc(f.kinds, func(kind string) bool { return kinds[kind] > 0 })
			}
			if f.at >= 0 {
				kinds := replay(t, g, servers, f.at)
				if isShown(kinds) {
					assert.Empty(t, replay(t, whole, servers, f.at), "holes without the flaw")
					return
				}
				t.Logf("program %d of seed %d shows %v, so the search begins at the first", f.at, usual, kinds)
			}
			const most = 30_000 // programs, which take five minutes on a slow machine
			found, err := hunt{generator: g, servers: servers, seed: usual}.search(t.Context(),
				func(r *report) bool { return isShown(r.kinds) || r.programs() >= most })
			require.NoError(t, err, "seed %d", usual)
			if !isShown(found.kinds) {
				t.Errorf("not found in %d programs of seed %d, but %v", found.programs(), usual, found.kinds)
			}
			for _, h := range found.holes {
				t.Logf("found after %d programs, in program %d, a hole of kind %q: %v", found.programs(), h.number(),
					h.fault.kind, h)
			}
		})
	}
}

// replay returns the kinds of faults that one program of the usual seed has. It is the one
// that a search would write as well: the numbers in TestPlanted only spare the way there.
func replay(t *testing.T, g generator, servers []*server, number int) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	p := Write(usual, number)
	accepted, _, err := g.judge(t.Context(), []*Program{p})
	require.NoError(t, err)
	rule, ok := accepted[p.Name]
	if !ok {
		return kinds
	}
	for _, s := range servers {
		f, _, err := examine(t.Context(), s, p, rule, drawn(usual, p))
		require.NoError(t, err)
		if f != nil {
			kinds[f.kind]++
		}
	}
	if len(kinds) > 0 || p.Trusting || p.Texts {
		return kinds
	}
	faults, err := servers[0].bindings(t.Context(), g, []bound{{p, rule, drawn(usual, p)}})
	require.NoError(t, err)
	for _, f := range faults {
		kinds[f.kind]++
	}
	return kinds
}
