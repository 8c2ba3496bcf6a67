package oracle

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

var (
	length   = flag.Duration("length", 0, "how long to look for holes; 0: as many programs as -programs says")
	programs = flag.Int("programs", 0, "how many programs to write; 0: 2,000 with -short, else 12,000")
	seed     = flag.Uint64("oracle.seed", 1, "of the programs; 0: from the clock")
	kinds    = flag.Int("kinds", 5, "how many kinds of holes end the search")
	alarms   = flag.Bool("alarms", false, "show programs without a mistake that are refused")
)

// The programs are always the same ones unless -oracle.seed says otherwise, so that a
// change of the generator is held against what others were held against.
func TestOracle(t *testing.T) {
	from, most := *seed, *programs
	switch {
	case most == 0 && testing.Short():
		most = 2_000
	case most == 0:
		most = 12_000
	}
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	end := time.Now().Add(*length)
	found, err := search(t.Context(), build(t), startAll(t), from, func(r *report) bool {
		if len(r.kinds) >= *kinds {
			return true
		}
		if *length > 0 {
			return time.Now().After(end)
		}
		return r.programs() >= most
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(found)
	if *alarms {
		t.Log(found.alarmed())
	}
	for _, h := range found.holes {
		t.Error(h)
	}
	if found.accepted < found.programs()/4 {
		t.Errorf("the generator accepts %d of %d programs, so that few are tried", found.accepted, found.programs())
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
	)
	flaws := []struct {
		flaw
		kinds []string // of the holes that it makes
	}{
		{flaw{"what may be redis.call or something else is something else", analyze + "call.go",
			"\t\teach := st\n",
			"\t\tif _, is := k.(Command); is && len(callee.kinds) > 1 {\n\t\t\tcontinue\n\t\t}\n\t\teach := st\n"},
			[]string{"rights", "read only"}},
		{flaw{"a key of which nothing is known is one of KEYS", check + "commands.go",
			"\t\tdefault:\n\t\t\tforeign = true",
			"\t\tcase analyze.Unknown, analyze.Text:\n\t\tdefault:\n\t\t\tforeign = true"},
			[]string{"rights"}},
		{flaw{"what is stored under a computed name is forgotten", analyze + "table.go",
			"u.Rest, u.Names = Join(t.Rest, present(v)), Join(t.Names, Of(k))\n\treturn &u",
			"return t"},
			[]string{"rights", "read only", "reply", "argument"}},
		{flaw{"a guard on one way is a guard on all", analyze + "state.go",
			"case p == Unchecked || q == Unchecked:\n\t\treturn Unchecked",
			"case p == Unchecked || q == Unchecked:\n\t\treturn max(p, q)"},
			[]string{"guard", "fence"}},
		{flaw{"a fence that is stored on some ways is stored", check + "guard.go",
			"if len(c.facts.Owed) == 0 {",
			"if len(c.facts.Owed) >= 0 {"},
			[]string{"fence"}},
		{flaw{"of several commands, the first is in the audit", check + "commands.go",
			"for _, name := range names {\n\t\t\tc.command(name, call)",
			"for _, name := range names[:1] {\n\t\t\tc.command(name, call)"},
			[]string{"rights", "read only", "error"}},
		{flaw{"a division has no fraction", analyze + "number.go",
			"class = Fraction",
			"class = Integer"},
			[]string{"reply"}},
		{flaw{"a duration has any unit", check + "commands.go",
			"\tc.units(known, shown, call)\n",
			""},
			[]string{"lease"}},
		{flaw{"a cache may hold what changes", check + "commands.go",
			"if known.Flags&command.Random != 0 {",
			"if false {"},
			[]string{"cached"}},
	}
	servers := startAll(t)
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			g := build(t, f.flaw)
			end := time.Now().Add(10 * time.Minute)
			shown := func(r *report) bool {
				return slices.ContainsFunc(f.kinds, func(kind string) bool { return r.kinds[kind] > 0 })
			}
			found, err := search(t.Context(), g, servers, 1, func(r *report) bool { return shown(r) || time.Now().After(end) })
			if err != nil {
				t.Fatal(err)
			}
			if !shown(found) {
				t.Errorf("not found in %d programs, but %v", found.programs(), found.kinds)
			}
			for _, h := range found.holes {
				t.Logf("found after %d programs: %v", found.programs(), h)
			}
		})
	}
}
