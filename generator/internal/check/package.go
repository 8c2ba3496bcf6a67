package check

import (
	"go/build"
	"io"
	"regexp"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Package returns a finding for every script that does not fit into one Go package with the others. Another
// script, or every generated package, has its Go names or its file name already. reserved are the names that
// every generated package declares.
func Package(scripts []*script.Script, reserved []string) []finding.Finding {
	names := newNamespace(reserved)
	methods := newNamespace([]string{"Load"})
	var findings []finding.Finding
	findings = append(findings, names.sentinels(scripts)...)
	files := map[string]*script.Script{}
	for _, s := range scripts {
		top := script.Pos{Line: 1, Column: 1}
		lower := strings.ToLower(s.Base)
		switch other := files[lower]; {
		case other == nil:
			files[lower] = s
		case other.Base == s.Base:
			findings = append(findings,
				s.Findf(top, "%s would also be written as %s.go; rename one of the files", other.Path, s.Base))
			continue
		default:
			findings = append(findings,
				s.Findf(top, "%s.go and the %s.go of %s are one file on systems that ignore the case of letters, "+
					"such as macOS and Windows; rename one of the files",
					s.Base, other.Base, other.Path))
			continue
		}
		if !everywhere(s.Base + ".go") {
			findings = append(findings,
				s.Findf(top, "Go would ignore the file %s.go on some or all systems, because of its name; give "+
					"the script's file another name", s.Base))
		}
		if !embeddable(s.Base) {
			findings = append(findings, s.Findf(top,
				"Go cannot embed the file %s, because of its name; give the script's file another name", s.Base))
		}
		taken, owner := methods.take(s.Methods(), s.Path)
		if taken == "" {
			taken, owner = names.take(s.Declares(), s.Path)
		}
		switch {
		case taken != "" && owner == s.Path:
			findings = append(findings,
				s.Findf(top, "the script makes the Go name %s twice; give the argument or the field that it comes from "+
					"another name", taken))
		case taken != "":
			findings = append(findings,
				s.Findf(top, "the Go name %s is already taken by %s; give the script another name: directive", taken,
					owner))
		}
	}
	return findings
}

// namespace maps a name to its owner.
type namespace map[string]string

func newNamespace(reserved []string) namespace {
	n := namespace{}
	for _, name := range reserved {
		n[name] = "every generated package"
	}
	return n
}

// take declares names for an owner. It returns the first name that already has an owner.
func (n namespace) take(names []string, owner string) (taken, by string) {
	for _, name := range names {
		switch other := n[name]; {
		case other == "":
			n[name] = owner
		case taken == "":
			taken, by = name, other
		}
	}
	return taken, by
}

// sentinels declares the errors of the scripts. Scripts may share an error.
func (n namespace) sentinels(scripts []*script.Script) []finding.Finding {
	var findings []finding.Finding
	codes := map[string]string{}
	for _, s := range scripts {
		for _, e := range s.Errors {
			name := e.Sentinel()
			if other := codes[name]; other != "" && other != e.Code {
				findings = append(findings,
					s.Findf(e.Pos, "errors: %s becomes the Go name %s, as %s does; rename one of them", e.Code, name, other))
			}
			codes[name] = e.Code
			n[name] = "an errors: directive"
		}
	}
	return findings
}

// everywhere reports whether Go compiles a file with the name on every system.
func everywhere(name string) bool {
	none := build.Default
	none.GOOS, none.GOARCH = "none", "none"
	none.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("package p\n")), nil
	}
	match, err := none.MatchFile("", name)
	return err == nil && match
}

// Go embeds no file with one of these names, because no module can have it. The rules are those of
// golang.org/x/mod/module.CheckFilePath.
var (
	unusual = regexp.MustCompile(`[^\pL\d!#$%&()+,.=@\[\]^_{}~ -]`)
	devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[1-9]|lpt[1-9])\.`)
)

// embeddable reports whether Go embeds a file with the name.
func embeddable(name string) bool {
	return !unusual.MatchString(name) && !devices.MatchString(name)
}
