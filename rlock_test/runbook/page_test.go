package runbook

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/RUNBOOK.md")
	require.NoError(t, err)
	return string(text)
}

// Each alert has a section of its name, which is what its runbook_url leads to.
func TestAlertsHaveSections(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../rlock/rlockprom/alerts.yml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		require.Contains(t, page(t), "\n## "+alert[1]+"\n")
	}
}

// Every section of the page that somebody may be sent to is in its index, or below a heading that is.
func TestIndexIsWhole(t *testing.T) {
	t.Parallel()
	index, rest, found := strings.Cut(page(t), "\n# It rings\n")
	require.True(t, found)
	rest, _, found = strings.Cut(rest, "\n# Planned work\n")
	require.True(t, found)
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(rest, -1) {
		require.Contains(t, index, "(#"+anchor(heading[1])+")")
	}
}

// A command that stands in the text, and in no block, is not run: of those there are only ones of which some
// block has the like.
func TestCommandsStandInBlocks(t *testing.T) {
	t.Parallel()
	var blocks string
	list, _ := sections(page(t))
	for _, s := range list {
		for _, c := range s.commands {
			blocks += c.line + "\n"
		}
	}
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page(t), "")
	for _, inline := range regexp.MustCompile("`((?:rlock|redis-cli) [^`]*)`").FindAllStringSubmatch(text, -1) {
		words := strings.Fields(inline[1])
		require.Contains(t, blocks, words[0]+" "+words[1], "%s is run by no block", inline[1])
	}
}

func anchor(title string) string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(title, ",", "")), " ", "-")
}

func TestSections(t *testing.T) {
	t.Parallel()
	const page = "text\n\n## One\n\n```sh\n$ a | b\nx …\n# no heading\n$ c\n```\n\n```\n$ no " +
		"command\n```\n\n### Two\n\n```sh\nlost\n$ d\n```\n"
	list, hidden := sections(page)
	require.Equal(t, []string{"lost\n"}, hidden)
	require.Equal(t, section{"One", []command{{"a | b", "x …\n# no heading\n"}, {"c", ""}}}, list[1])
	require.Equal(t, section{"Two", []command{{"d", ""}}}, list[2])
}

func TestFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prints, printed string
		want            bool
	}{
		"equal":                 {"a b\n", "a b\n", true},
		"without an end":        {"a\n", "a", true},
		"other text":            {"a\n", "b\n", false},
		"more":                  {"a\n", "a\nb\n", false},
		"less":                  {"a\nb\n", "a\n", false},
		"nothing":               {"", "", true},
		"something for nothing": {"", "a\n", false},
		"in a line":             {"a … c\n", "a b c\n", true},
		"not over lines":        {"a … c\n", "a b\nc\n", false},
		"no lines":              {"a\n…\n", "a\n", true},
		"any lines":             {"…\nc\n", "a\nb\nc\n", true},
		"spaces":                {"a   b\n", "a\tb\n", true},
		"no expressions":        {"a.c\n", "abc\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, fits(c.prints, c.printed))
		})
	}
}
