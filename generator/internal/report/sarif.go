package report

import (
	"encoding/json"
	"io"
	"net/url"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// The explanation of the rules, and the schema of a log.
const (
	informationURI = "https://pkg.go.dev/github.com/rlock-go/toolkit/generator/redislua"
	schemaURI      = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

// sourceRoot is the base of relative paths. The reader of a log replaces it by the place of the repository.
const sourceRoot = "%SRCROOT%"

// The parts of a SARIF 2.1.0 log that the generator writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
		FullDescription  sarifText `json:"fullDescription"`
		Help             sarifText `json:"help"`
		HelpURI          string    `json:"helpUri"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysicalLocation `json:"physicalLocation"`
	}
	sarifPhysicalLocation struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI       string `json:"uri"`
		URIBaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
		EndLine     int `json:"endLine"`
		EndColumn   int `json:"endColumn"` // of the first character after the place
	}
)

// writeLog writes findings as a SARIF log with one run. The log has only the rules of its findings.
func writeLog(w io.Writer, findings []finding.Finding, rules []finding.Rule) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "redislua", InformationURI: informationURI, Rules: []sarifRule{}}},
		ColumnKind: "utf16CodeUnits",
		Results:    []sarifResult{},
	}
	rules = slices.DeleteFunc(rules, func(r finding.Rule) bool {
		return !slices.ContainsFunc(findings, func(f finding.Finding) bool { return ruleOf(f) == r.Name })
	})
	for _, r := range rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: r.Name, ShortDescription: sarifText{r.Demand}, FullDescription: sarifText{r.Demand},
			Help: sarifText{"The message of a finding says how to mend it."}, HelpURI: informationURI,
		})
	}
	p := newPlaces()
	for _, f := range findings {
		column := p.column(f)
		run.Results = append(run.Results, sarifResult{
			RuleID:    ruleOf(f),
			RuleIndex: slices.IndexFunc(rules, func(r finding.Rule) bool { return r.Name == ruleOf(f) }),
			Level:     "error",
			Message:   sarifText{f.Message},
			Locations: []sarifLocation{{sarifPhysicalLocation{p.artifact(f.Path),
				sarifRegion{f.Line, column, f.Line, column + 1}}}},
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(sarifLog{schemaURI, "2.1.0", []sarifRun{run}})
}

// artifact returns the place of a file. A file outside of the repository gets a file URI.
func (p *places) artifact(name string) sarifArtifact {
	path, inside := p.path(name)
	if inside {
		return sarifArtifact{(&url.URL{Path: path}).EscapedPath(), sourceRoot}
	}
	if path != "" && path[0] != '/' { // a drive of Windows
		path = "/" + path
	}
	return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: path}).String()}
}
