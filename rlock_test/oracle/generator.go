package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// generator is a built generator.
type generator struct {
	path string
	root string // of the module

	flawed map[string]string // by file of the module, its flawed copy; the bindings import some
}

// overlay makes the go command replace the files that it names.
type overlay struct{ Replace map[string]string }

// A flaw is a mistake that a test builds into a generator.
type flaw struct {
	name     string
	file     string // below the module's root
	old, new string // text of the file, and its replacement
}

// build builds the generator, with flaws.
func build(tb testing.TB, flaws ...flaw) generator {
	tb.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	g := generator{filepath.Join(dir, "generator"), root, map[string]string{}}
	for i, f := range flaws {
		path := filepath.Join(root, filepath.FromSlash(f.file))
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		if n := bytes.Count(text, []byte(f.old)); n != 1 {
			tb.Fatalf("the flaw %q replaces a text that stands %d times in %s; it must stand there once:\n%s", f.name,
				n, f.file, f.old)
		}
		changed := filepath.Join(dir, fmt.Sprintf("flaw%d.go", i))
		if err := os.WriteFile(changed, bytes.Replace(text, []byte(f.old), []byte(f.new), 1), 0o600); err != nil {
			tb.Fatal(err)
		}
		g.flawed[path] = changed
	}
	text, err := json.Marshal(overlay{g.flawed})
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags=-s -w", "-o",
		g.path, "./generator/redislua")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return g
}

// rule is what the audit says of a script.
type rule struct {
	Name     string         `json:"name"`
	File     string         `json:"file"`
	ACL      []string       `json:"acl"`
	Whole    bool           `json:"acl_whole"`
	Unproved []string       `json:"not_proved"`
	Text     string         `json:"text"`
	Rules    map[string]int `json:"rules"`
}

var findingLine = regexp.MustCompile(`(?m)^\S*?(p\d{6})[.0-9]*\.lua:\d+:\d+: (.*)$`)

// judge makes the generator read the programs. It returns the audits of the accepted programs by
// name. For each refused program it returns the first finding, also by name.
func (g generator) judge(ctx context.Context, programs []*Program) (accepted map[string]rule,
	refused map[string]string, err error) {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	for _, p := range programs {
		if err := p.write(dir); err != nil {
			return nil, nil, err
		}
	}
	refused = map[string]string{}
	out, complaints, err := g.run(ctx, dir)
	if err == nil {
		return audits(out, refused)
	}
	for _, match := range findingLine.FindAllStringSubmatch(complaints, -1) {
		if _, ok := refused[match[1]]; !ok {
			refused[match[1]] = match[2]
			if err := os.Remove(filepath.Join(dir, match[1]+".lua")); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(refused) == 0 {
		return nil, nil, fmt.Errorf("the generator failed without a finding about a program: %w\n%s", err,
			complaints)
	}
	if len(refused) == len(programs) {
		return nil, refused, nil
	}
	if out, complaints, err = g.run(ctx, dir); err != nil {
		return nil, nil, fmt.Errorf("the generator accepts programs among others that it refuses alone: %w\n%s",
			err, complaints)
	}
	return audits(out, refused)
}

func (g generator) run(ctx context.Context, dir string) (out []byte, complaints string, err error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, g.path, "-scripts", dir, "-audit", "-json", "-v")
	cmd.Stderr = &stderr
	out, err = cmd.Output()
	return out, stderr.String(), err
}

func audits(text []byte, refused map[string]string) (map[string]rule, map[string]string, error) {
	var rules []rule
	if err := json.Unmarshal(text, &rules); err != nil {
		return nil, nil, fmt.Errorf("the audit is no JSON: %w", err)
	}
	accepted := make(map[string]rule, len(rules))
	for _, r := range rules {
		name := r.File[:len(r.File)-len(filepath.Ext(r.File))]
		if len(r.ACL) == 0 {
			return nil, nil, errors.New("the audit of " + r.File + " has no ACL rule")
		}
		accepted[filepath.Base(name)] = r
	}
	return accepted, refused, nil
}
