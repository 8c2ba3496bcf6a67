package interop

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// row is a library in the table of docs/INTEROP.md.
type row struct{ library, version, keys string }

var tableRow = regexp.MustCompile("(?m)^\\| (\\S.*?) +\\| (\\S+) +\\| (`.*?) +\\|")

func table(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("../../docs/INTEROP.md")
	require.NoError(t, err)
	var rows []row
	for _, match := range tableRow.FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, row{match[1], match[2], match[3]})
	}
	return rows
}

// The table has each library with the version tested and the keys that it really uses.
func TestTable(t *testing.T) {
	t.Parallel()
	const name = "order:17"
	rows := table(t)
	require.Len(t, rows, len(libraries))
	versions := testedVersions(t)
	engine := env.Engines(t)[0]
	for i, library := range libraries {
		t.Run(library.name, func(t *testing.T) {
			t.Parallel()
			row := rows[i]
			require.Equal(t, library.name, row.library)
			replayed := strings.HasSuffix(library.name, ", replayed")
			if package_, _, _ := strings.Cut(library.name, ","); !replayed {
				require.Equal(t, versions[package_], row.version)
			}

			server := engine.Start(t)
			theirs, err := library.open(t, server.Addr()).try(t.Context(), name, long)
			require.NoError(t, err)
			require.NotNil(t, theirs)
			var keys []string
			require.Eventually(t, func() bool { // rueidislock takes the last of its keys later
				keys, err = new(server.Do(t, "KEYS", "*")).AsStrSlice()
				require.NoError(t, err)
				return len(keys) == len(library.keys(name))
			}, soon, while/10)
			slices.Sort(keys)
			require.Equal(t, library.keys(name), keys)
			require.Equal(t, "`"+strings.Join(keys, "`, `")+"`", row.keys)
			for _, key := range keys {
				value, err := new(server.Do(t, "GET", key)).ToString()
				require.NoError(t, err)
				require.Regexp(t, library.value, bytewise(value))
			}
			own, err := theirs.release(t.Context())
			require.NoError(t, err)
			require.True(t, own)
		})
	}
}

// bytewise has a character for each byte of a text, for a regular expression to count.
func bytewise(text string) string {
	runes := make([]rune, 0, len(text))
	for _, b := range []byte(text) {
		runes = append(runes, rune(b))
	}
	return string(runes)
}

// testedVersions are those of go.mod and package.json, by name as in the table.
func testedVersions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+?)(?:/v\d+)? v(\S+)$`).FindAllStringSubmatch(
		string(mod), -1) {
		versions[match[1]] = match[2]
	}
	versions["github.com/redis/rueidis/rueidislock"] = versions["github.com/redis/rueidis"]
	text, err := os.ReadFile("package.json")
	require.NoError(t, err)
	var npm struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(text, &npm))
	for library, version := range npm.Dependencies {
		versions["npm "+library] = version
	}
	return versions
}

// A lock file that names a registry has npm ask that one, wherever it runs.
func TestLockFileNamesNoRegistry(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("package-lock.json")
	require.NoError(t, err)
	require.NotContains(t, string(text), `"resolved"`)
	require.NotContains(t, string(text), "registry")
}
