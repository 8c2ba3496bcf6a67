package main

import (
	"runtime/debug"
	"strings"
)

// versionCommand is rlock version, and rlock --version.
func (p *program) versionCommand(args []string) error {
	a := p.arguments("version")
	if _, err := a.keys(args, 0, 0, "nothing but flags"); err != nil {
		return err
	}
	v := versionOf(debug.ReadBuildInfo())
	return p.result(v.String()+"\n",
		fields{"version": v.version, "commit": orNull(v.commit), "modified": v.modified, "go": v.compiler,
			"platform": v.platform})
}

// version is what the toolchain has written into a program. "" is what it has not.
type version struct {
	version  string // of the module, "(devel)" for a build in its directory
	commit   string
	modified bool // the directory had changes that the commit has not
	compiler string
	platform string
}

// versionOf reads the version of a program; known is false for one that was built without modules.
func versionOf(info *debug.BuildInfo, known bool) version {
	v := version{version: "(devel)"}
	if !known {
		return v
	}
	if info.Main.Version != "" {
		v.version = info.Main.Version
	}
	v.compiler = info.GoVersion
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v.commit, v.modified = settings["vcs.revision"], settings["vcs.modified"] == "true"
	if system := settings["GOOS"]; system != "" {
		v.platform = system + "/" + settings["GOARCH"]
	}
	return v
}

// String is one line, which begins with "rlock" and the version.
func (v version) String() string {
	words := []string{"rlock", v.version}
	if v.commit != "" {
		words = append(words, "commit", v.commit[:min(len(v.commit), 12)])
		if v.modified {
			words = append(words, "with changes")
		}
	}
	for _, word := range []string{v.compiler, v.platform} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// orNull is a text for JSON: null if it is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
