package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a line of go test in second n, for a package or for a test of it.
func at(n, action, pkg, name string) string {
	return `{"Time":"2026-01-01T00:00:0` + n + `Z","Action":"` + action + `","Package":"` + pkg + `","Test":"` +
		name + `"}`
}

// Only what failed while the machine stood still runs again.
func TestRepetitions(t *testing.T) {
	t.Parallel()
	lines := map[string][]string{
		"the machine ran": {at("5", "start", "p", ""), at("5", "run", "p", "TestA"),
			at("6", "fail", "p", "TestA"), at("6", "fail", "p", "")},
		"it passed": {at("1", "start", "p", ""), at("1", "run", "p", "TestA"),
			at("6", "pass", "p", "TestA"), at("6", "pass", "p", "")},
		"one of two": {at("1", "start", "p", ""), at("1", "run", "p", "TestA"),
			at("4", "fail", "p", "TestA"), at("5", "run", "p", "TestB"), at("6", "fail", "p", "TestB"),
			at("6", "fail", "p", "")},
		"a subtest": {at("1", "start", "p", ""), at("1", "run", "p", "TestA"),
			at("1", "run", "p", "TestA/x"), at("4", "fail", "p", "TestA/x"), at("4", "fail", "p", "TestA"),
			at("4", "fail", "p", "")},
		"a panic": {at("1", "start", "p", ""), at("1", "run", "p", "TestA"),
			at("4", "fail", "p", "TestA"), at("5", "run", "p", "TestB"), at("6", "fail", "p", "")},
		"the package alone": {at("1", "start", "p", ""), at("1", "run", "p", "TestA"),
			at("2", "pass", "p", "TestA"), at("6", "fail", "p", "")},
	}
	for name, want := range map[string][]repetition{
		"the machine ran":   nil,
		"it passed":         nil,
		"one of two":        {{"p", []string{"TestA"}, time.Second}},
		"a subtest":         {{"p", []string{"TestA"}, time.Second}},
		"a panic":           {{"p", nil, time.Second}},
		"the package alone": {{"p", nil, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReport(new(strings.Builder))
			r.watch.note(time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC), time.Second)
			r.watch.note(time.Date(2026, 1, 1, 0, 0, 5, 500, time.UTC), leastStall-1)
			r.begin(step{name: "s"})
			require.NoError(t, r.read(strings.NewReader(strings.Join(lines[name], "\n"))))
			require.Equal(t, want, r.repetitions())
			r.step.fuzz = "p"
			require.Empty(t, r.repetitions(), "what a fuzzer finds is no matter of time")
		})
	}
}

func TestArgsOfARepetition(t *testing.T) {
	t.Parallel()
	p := repetition{"example.test/p", []string{"TestA", "TestB"}, time.Second}
	require.Equal(t, []string{"test", "-race", "-p=1", "-parallel=2", "-run=^(TestA|TestB)$", "example.test/p",
		"-args", "-states=5"},
		p.args([]string{"test", "-race", "./p", "./q/...", "-args", "-states=5"}))
	p.tests = nil
	require.Equal(t, []string{"test", "-p=1", "-parallel=2", "example.test/p"}, p.args([]string{"test"}))
}

// A test that fails while the machine stands still, and passes later, has passed, and the summary
// says so. One that fails each time has failed, once.
func TestStepRunsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/suite\n\ngo 1.25.0\n",
		"p/p_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestOnce(t *testing.T) {\n\tif os.Mkdir(\"seen\", 0o700) == nil {\n\t\tt.Fatal(\"late\")\n\t}\n}\n\n" +
			"func TestBad(t *testing.T) { t.Fatal(\"it is bad\") }\n\nfunc TestGood(*testing.T) {}\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var printed strings.Builder
	r := newReport(&printed)
	r.watch.note(time.Now(), time.Hour)
	r.run(step{name: "s", dir: dir, env: []string{"GOWORK=off", "GOPROXY=off"},
		args: []string{"test", "-count=1", "./p"}})
	r.byEngine["redis"] = &counts{}
	require.False(t, r.summary(1))
	require.Equal(t, "2 passed, 1 failed", lastLine(printed.String()))
	require.Contains(t, printed.String(),
		"repeated s: example.test/suite/p TestOnce, TestBad ran again, as the machine stood still for 3600.0 s "+
			"meanwhile\n")
	require.Equal(t, most, strings.Count(printed.String(), "it is bad"))
}

// One long stall is enough, or many short ones, and what a busy machine has is not.
func TestBetween(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		stalls []time.Duration // one in each second
		want   time.Duration
	}{
		"none": {},
		"a busy machine": {stalls: []time.Duration{0, 126 * time.Millisecond, 90 * time.Millisecond, 0,
			99 * time.Millisecond}},
		"a long one":      {[]time.Duration{0, 0, longStall, 0, 0}, longStall},
		"many short ones": {[]time.Duration{leastStall, leastStall, leastStall, leastStall, 0}, 4 * leastStall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatch()
			for i, took := range c.stalls {
				w.note(start.Add(time.Duration(i)*time.Second), took)
			}
			require.Equal(t, c.want, w.between(start, start.Add(5*time.Second)))
			require.Zero(t, w.between(start.Add(-time.Hour), start), "before")
			require.Zero(t, w.between(start.Add(time.Minute), start.Add(time.Hour)), "after")
		})
	}
}
