package line

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// planted is a flaw: a text of a file that is replaced by another.
type planted struct {
	name, file, right, wrong string
}

// flaws are in what decides. Each breaks a promise of some world.
var flaws = []planted{
	{"nobody stands for those who wait", "step.go", "\ts.stand()\n\treturn o", "\treturn o"},
	{"a caller who leaves is not replaced", "step.go", "\tcase Asks:\n\t\ts.failed(c.own)", "\tcase Asks:"},
	{
		"the last who came is served first", "step.go",
		"c, at, do := s.head, g.Part(), GoOn", "c, at, do := s.tail, g.Part(), GoOn",
	},
	{
		"an ask that fails counts on", "step.go",
		"\tif s.asksNoMore(g.Part()) {\n\t\ts.forget(g)\n\t}", "\ts.asksNoMore(g.Part())",
	},
	{
		"a lease ends while its key moves", "step.go",
		"state == live || state == back", "state != out && state != asked",
	},
	{"the key moves and the lease is live", "step.go", "do, at.state = PassOn, moving", "do = PassOn"},
	{"a lease that has ended stays", "step.go", "\ts.leases--\n\tif s.lease == g {", "\tif s.lease == g {"},
	{
		"a lease that has ended is in the way", "step.go",
		"\tif s.lease == g {\n\t\ts.lease, s.turn = nil, turn{}", "\tif false {\n\t\ts.lease, s.turn = nil, turn{}",
	},
	{"readers join after the turn", "step.go", "return s.e.Now < at.until && ", "return "},
	{
		"the first reader who is done gives all back", "step.go",
		"if at.users--; at.users > 0 {", "if at.users--; at.users > 100 {",
	},
	{"who is given a lease does not count", "step.go", "\tg.Part().users++\n", ""},
	{
		"readers are let in although one wants nobody", "step.go",
		"for c := s.head; at.open && c != nil; {", "for c := s.head; c != nil; {",
	},
	{"a reader who does something else is let in", "step.go", "\t\t\tif c.awaits {\n", "\t\t\tif true {\n"},
	{"a reader who comes back is forgotten", "step.go", "c.awaits && s.isOpen()", "false && s.isOpen()"},
	{"a lease goes on as another owner's", "step.go", "as.Owner == want.Owner && ", ""},
	{"a token goes on that must be nobody else's", "step.go", "!as.Own && !want.Own && ", ""},
	{"a token goes on that somebody has seen", "step.go", "!s.e.Sealed && ", ""},
	{
		"a lease goes on that is over", "step.go",
		"lasts(g.Deadline(), s.e.Now, want.TTL, want.Extends)\n}\n\nfunc (s *step) give",
		"true\n}\n\nfunc (s *step) give",
	},
	{"a lease goes on that can only be given back", "step.go", "c == nil || s.e.Plain || ", "c == nil || "},
	{
		"a lease goes to one who does something else", "step.go",
		"|| s.Mode == Readers || !c.awaits", "|| s.Mode == Readers",
	},
	{"permits go on after their turn", "step.go", "if !fits || s.e.Now >= at.until {", "if !fits {"},
	{
		"permits that stand count for ever", "step.go",
		"\t\tat.stands = false\n\t\ts.standing--", "\t\tat.stands = false",
	},
	{"old fences are kept beside a new one", "step.go", "\ts.turn.spare = 0 //", "\t//"},
	{"a lease without a fence leaves some", "step.go", "if s.e.Fences > 0 {", "if true {"},
	{"fences outlast the key", "step.go", "s.lease, s.turn = nil, turn{}", "s.lease = nil"},
	{
		"an answer to an old question counts", "step.go",
		"case s.turn.late == 0 || s.number != s.e.Number:", "case s.turn.late == 0:",
	},
	{
		"a turn never ends", "turn.go",
		"return limit == 0 || t.others != 0 &&", "return limit == 0 || t.others != 0 && false &&",
	},
	{"nobody asks whether others wait", "turn.go", "return ask, ask && t.failed", "return ask && false, false"},
	{
		"a question without an answer is not asked again", "turn.go",
		"return now >= t.late, now >= t.late", "return false, false",
	},
	{"two go on with one fence", "turn.go", "\t\tt.fence++\n", ""},
	{
		"who detaches a lease has others in it", "lease.go",
		"if at.users > 1 {\n\t\treturn false", "if at.users > 1 {\n\t\treturn true",
	},
}

// Each flaw is found. It is planted in a copy of the file, with which the tests of worlds run.
func TestPlantedFlaws(t *testing.T) {
	t.Parallel()
	for _, flaw := range flaws {
		text, err := os.ReadFile(flaw.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), flaw.right), "%s: the text to replace", flaw.name)
	}
	some := flaws
	if *states <= few {
		some = flaws[:1] // the package is built once for each
	}
	for _, flaw := range some {
		t.Run(flaw.name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(flaw.file)
			require.NoError(t, err)
			dir := t.TempDir()
			planted := filepath.Join(dir, flaw.file)
			wrong := strings.Replace(string(text), flaw.right, flaw.wrong, 1)
			require.NoError(t, os.WriteFile(planted, []byte(wrong), 0o600))
			path, err := filepath.Abs(flaw.file)
			require.NoError(t, err)
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: planted}})
			require.NoError(t, err)
			list := filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(list, overlay, 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", list, "-vet=off", "-count=1",
				"-run=^(TestExplore|TestWalksOfProcesses)$", "-failfast", ".",
				"-args", "-states=4000", "-walks=6000").CombinedOutput()
			require.Error(t, err, "the flaw is not found")
			require.Contains(t, string(out), "--- FAIL: Test", "%s", out)
		})
	}
}
