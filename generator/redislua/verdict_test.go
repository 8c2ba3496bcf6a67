package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// The archives in testdata/bad hold scripts with one mistake each; those in testdata/good
// hold correct ones. In both, a file without a directory is a script, and one in a
// directory is a fragment that the scripts of the archive may include.
//
// A bad script marks the line that must be reported, with words that the message must have:
//
//	redis.call('SET', KEYS[2], 1) -- want KEYS[2] declared
//
// A bar divides alternatives. A mark for another line, such as one of the header, stands in
// a line of its own with that line's number: -- want@2 unused. Where several lines would be
// right, each has a mark, and one of them must be reported. Nothing else may be.
//
// A correct script must be accepted. What its bindings answer is the business of
// TestGoodScripts in rlock_test/generator.

// openFile lists the cases whose verdict is still wrong, each with the reason. The test
// fails if a listed case has become right, so the list only gets shorter.
const openFile = "testdata/open.list"

// sample is one script of an archive, with its fragments.
type sample struct {
	name      string // bad/calls/and_or
	script    txtar.File
	fragments []txtar.File
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	open := readOpen(t)
	for _, s := range append(samples(t, "bad"), samples(t, "good")...) {
		reason, listed := open[s.name]
		delete(open, s.name)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			wrong := s.judge(t)
			switch {
			case wrong == nil && listed:
				t.Fatalf("the verdict is right now: take %s out of %s", s.name, openFile)
			case wrong != nil && listed:
				t.Logf("still open (%s): %v", reason, wrong)
			case wrong != nil:
				t.Fatal(wrong)
			}
		})
	}
	require.Empty(t, slices.Sorted(maps.Keys(open)), "%s names cases that do not exist", openFile)
}

// samples returns the scripts of all archives in a directory of testdata.
func samples(t *testing.T, kind string) []sample {
	t.Helper()
	archives, err := filepath.Glob("testdata/" + kind + "/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	var all []sample
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		require.NoError(t, err)
		theme := path.Join(kind, strings.TrimSuffix(filepath.Base(name), ".txtar"))
		fragments := map[string][]txtar.File{}
		for _, f := range archive.Files {
			if owner, _, ok := strings.Cut(f.Name, "/"); ok {
				fragments[owner] = append(fragments[owner], f)
			}
		}
		for _, f := range archive.Files {
			if base := strings.TrimSuffix(f.Name, ".lua"); !strings.Contains(base, "/") {
				all = append(all, sample{path.Join(theme, base), f, fragments[base]})
			}
		}
	}
	return all
}

// readOpen returns the reasons of the cases that are listed as not yet right.
func readOpen(t *testing.T) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	text, err := os.ReadFile(openFile)
	if errors.Is(err, fs.ErrNotExist) {
		return reasons
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		require.NotEmpty(t, reason, "%s: %s has no reason", openFile, name)
		require.NotContains(t, reasons, name)
		reasons[name] = strings.TrimSpace(reason)
	}
	return reasons
}

// judge runs the generator on the script and returns what is wrong with its verdict.
func (s sample) judge(t *testing.T) error {
	t.Helper()
	dir := t.TempDir()
	lua := filepath.Join(dir, "lua")
	for _, f := range append([]txtar.File{s.script}, s.fragments...) {
		place := filepath.Join(lua, filepath.FromSlash(f.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(place), 0o777))
		require.NoError(t, os.WriteFile(place, f.Data, 0o666))
	}
	var stdout, stderr bytes.Buffer
	err := runSafely([]string{"-scripts", lua, "-out", filepath.Join(dir, "bindings")}, &stdout, &stderr)
	if panicked := new(panicError); errors.As(err, &panicked) {
		return err
	}
	findings := strings.ReplaceAll(stderr.String(), filepath.ToSlash(lua)+"/", "")
	if strings.HasPrefix(s.name, "good/") {
		if err != nil {
			return fmt.Errorf("a correct script is refused: %w\n%s", err, findings)
		}
		return nil
	}
	if err == nil {
		return errors.New("a script with a mistake is accepted")
	}
	return compare(s.marks(t), findings)
}

// panicError is a panic of the generator: no verdict at all.
type panicError struct{ value any }

func (p *panicError) Error() string { return fmt.Sprint("the generator panics: ", p.value) }

func runSafely(args []string, stdout, stderr io.Writer) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value}
		}
	}()
	return run(args, stdout, stderr)
}

// mark is a line that may be reported, and the words that a message for it must have.
type mark struct {
	place string // file:line
	words [][]string
}

var (
	marked    = regexp.MustCompile(`-- want(?:@(\d+))? (.*)$`)
	reported  = regexp.MustCompile(`(?m)^(\S+?:\d+):\d+: (.*)$`)
	separator = regexp.MustCompile(`\s+\|\s+`)
)

// marks returns the marks of the script and its fragments.
func (s sample) marks(t *testing.T) []mark {
	t.Helper()
	var marks []mark
	for _, f := range append([]txtar.File{s.script}, s.fragments...) {
		for i, line := range strings.Split(string(f.Data), "\n") {
			found := marked.FindStringSubmatch(line)
			if found == nil {
				continue
			}
			number := i + 1
			if found[1] != "" {
				number, _ = strconv.Atoi(found[1])
			}
			m := mark{place: fmt.Sprintf("%s:%d", f.Name, number)}
			for _, words := range separator.Split(strings.TrimSpace(found[2]), -1) {
				m.words = append(m.words, strings.Fields(strings.ToLower(words)))
			}
			marks = append(marks, m)
		}
	}
	require.NotEmpty(t, marks, "%s marks no line", s.name)
	return marks
}

// compare returns how findings differ from the marks: one of them must be reported, with
// its words, and nothing but them may be.
func compare(marks []mark, findings string) error {
	hit := false
	var stray []string
	for _, f := range reported.FindAllStringSubmatch(findings, -1) {
		at := slices.IndexFunc(marks, func(m mark) bool { return m.place == f[1] })
		switch {
		case at < 0:
			stray = append(stray, f[0])
		case marks[at].describedBy(f[2]):
			hit = true
		}
	}
	switch {
	case !hit:
		return fmt.Errorf("no finding fits %v; there are:\n%s", marks, findings)
	case len(stray) > 0:
		return fmt.Errorf("other lines are reported too:\n%s", strings.Join(stray, "\n"))
	}
	return nil
}

func (m mark) describedBy(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc(m.words, func(words []string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(message, word) })
	})
}

// saysHow finds the part of a message that says what to do, behind what is wrong.
var saysHow = regexp.MustCompile(`; |\bwant\b|\bwrite\b|\bdeclare\b|\bdo without\b`)

// Every message that a mistake brings says how to mend it, and a mistake brings one message.
func TestMessagesNameTheFix(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t, "bad") {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, f := range append(s.fragments, s.script) {
				put(t, dir, map[string]string{f.Name: string(f.Data)})
			}
			var stdout, stderr bytes.Buffer
			require.ErrorIs(t, run([]string{"-scripts", dir, "-out", filepath.Join(dir, "bindings")}, &stdout,
				&stderr), errReported)
			findings := reported.FindAllStringSubmatch(stderr.String(), -1)
			require.NotEmpty(t, findings)
			seen := map[string]bool{}
			for _, f := range findings {
				require.Regexp(t, saysHow, f[2])
				require.False(t, seen[f[2]], "one message for one cause: %s", f[0])
				seen[f[2]] = true
			}
		})
	}
}
