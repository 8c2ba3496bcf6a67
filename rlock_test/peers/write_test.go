package peers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// measured has a few rounds of a few libraries, and one of each other kind of section.
func measured() *results {
	round := func(ops int64, latency time.Duration) *sample {
		s := &sample{ops: ops, elapsed: time.Second, commands: 4 * ops, scripts: 2 * ops, least: 1, most: 2,
			serverCPU: time.Duration(ops) * 1500, clientCPU: time.Duration(ops) * 250, allocs: uint64(3 * ops),
			bytes: uint64(120 * ops), more: 17}
		s.latency.add(latency)
		return s
	}
	hung := &outcome{driver: driver{name: rueidisLockName + ", noloop", peer: true},
		samples: []*sample{{hung: true,
			elapsed: time.Second}}}
	return &results{sections: []section{
		comparison{workload: workload{name: workUncontended, level: "callers", why: "each takes a key"},
			level: 16,
			outcomes: []*outcome{
				{driver: driver{name: floorName}, samples: []*sample{round(20_000, 1023), round(20_000, 1023)}},
				{driver: driver{name: rlockPlain}, samples: []*sample{round(28_437, 2047), round(10_000, 2047)}},
				{driver: driver{name: redsyncName + ", rueidis", peer: true}, samples: []*sample{round(9876, 1e6)}},
				hung,
			}},
		idleness{locks: 1000, costs: []idleCost{{name: rlockExtended, clientCPU: 0.0302, serverCPU: 0.0196,
			scripts: 30.21, goroutines: 2, bytes: 679}, {name: "another", hung: "when they were released"}}},
		curve{name: "locks held", says: "constant", points: []point{{size: 100, took: 55_312, serverCPU: 388,
			clientCPU: 2_450_000, scripts: 0.02, allocs: 46.9}}},
	}}
}

// The results are one row for each setting, with plain numbers in the units of their columns.
func TestResultsAreData(t *testing.T) {
	t.Parallel()
	s := measured().sheet("Measured once.")
	const want = `# Measured once.
# A column that ends in _to_first is a ratio to the first row of the same workload and level.
# The ratio is the median of the ratios of each round. So is per_second_to_best_peer.
# An op is one operation of the workload. An empty cell has no figure.
# Among processes, the setting is the guest. The latency is that of the guest, the rate that of the processes.
# Setting floor: bare rueidis: SET NX PX, then a compare-and-delete script.
# Setting rlock: default settings.
# Setting rlock, auto-extended: WithAutoExtend(true).
# Setting rueidislock, noloop: KeyMajority 1 for one server, NoLoopTracking for Redis 7.0.5 or later.
# Setting redsync, rueidis: default settings, with as many tries as needed.
# Workload uncontended: each takes a key.
# Workload idle: the libraries with automatic extension hold locks with a lease of 10s.
# Workload growth with locks held: constant.
workload,level,level_counts,setting,per_second,per_second_to_first,per_second_to_best_peer,p50_us,p50_to_first,` +
		`p99_us,p99_to_first,max_us,max_to_first,commands_per_op,scripts_per_op,server_us_per_op,client_us_per_op,` +
		`allocations_per_op,bytes_per_op,holders,goroutines,least_to_most,failed,hung,us_per_op,scripts_per_second,` +
		`heap_bytes_per_lock,client_core_percent,server_core_percent
uncontended,16,callers,floor,20000,1.00,2.03,1.02,1.00,1.02,1.00,1.02,1.00,4,2,1.5,0.25,3,120,,17,0.50,0,,,,,,
uncontended,16,callers,rlock,19200,0.96,2.88,2.05,2.00,2.05,2.00,2.05,2.00,4,2,1.5,0.25,3,120,,17,0.50,0,,,,,,
uncontended,16,callers,"redsync, rueidis",9876,0.49,1.00,1000,977.52,1000,977.52,1000,977.52,4,2,1.5,0.25,3,120,,17,` +
		`0.50,0,,,,,,
uncontended,16,callers,"rueidislock, noloop",0,0.00,0.00,,,,,,,,,,,,,,0,0.00,,in a round,,,,,
idle,1000,locks held and extended,"rlock, auto-extended",,,,,,,,,,,,,,,,,2,,,,,30.2,679,3.02,1.96
idle,1000,locks held and extended,another,,,,,,,,,,,,,,,,,0,,,when they were released,,0,0,0.00,0.00
growth with locks held,100,locks held,rlock,,,,,,,,,,,0.02,0.388,2450,46.9,,,,,,,55.3,,,,
`
	require.Equal(t, want, s.csv())
	read, err := parseSheet(want)
	require.NoError(t, err)
	require.Equal(t, want, read.csv())
	_, err = parseSheet("workload,level\nuncontended,16\n")
	require.ErrorContains(t, err, "columns")
}

// The README shows the fastest setting of each library, and only the rows that were measured.
func TestFiguresOfResults(t *testing.T) {
	t.Parallel()
	text := measured().sheet("Measured once.").figures()
	require.Contains(t, text, "| 16 callers, each takes its own free key | 19,200 | no figure | no figure "+
		"| 9,876 |\n")
	require.NotContains(t, text, "1,024 callers")
	require.Contains(t, text, "\nMeasured once.\n")
}

// What the documentation shows is what the results say, so no figure is written by hand.
func TestFiguresShownAreThoseOfResults(t *testing.T) {
	t.Parallel()
	s, err := readSheet(resultsFile)
	require.NoError(t, err)
	text, err := os.ReadFile(resultsFile)
	require.NoError(t, err)
	require.Equal(t, string(text), s.csv())

	shown := between(t, readmeFile, readmeBegin)
	require.Equal(t, s.figures(), shown)
	for _, f := range figuresShown {
		require.Contains(t, shown, "\n| "+f.what+" | ")
		require.Less(t, len(f.what), 60)
	}
	picture, err := os.ReadFile(pictureFile)
	require.NoError(t, err)
	require.Equal(t, s.picture(), string(picture))
}

// The goals are data too: a row for each.
func TestGoalsAreWritten(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(goalsFile)
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	reached := 0
	for _, row := range rows {
		require.Regexp(t, `^.+,.+,.+,(yes|no)$`, row)
		if strings.HasSuffix(row, ",yes") {
			reached++
		}
	}
	page, err := os.ReadFile("../../docs/BENCHMARKS.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("reached %d of its %d goals", reached, len(rows)))
	require.Equal(t, "work,goal,measured_by_level,reached\na,≥ 1,2: 0.5,no\n\"b, c\",≥ 1,2: 1.5,yes\n",
		goalTable([]*goal{{work: "a", wanted: "≥ 1", measured: "2: 0.5"},
			{work: "b, c", wanted: "≥ 1", measured: "2: 1.5", reached: true}}))
}

func between(t *testing.T, file, begin string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	_, text, _, err := cut(string(page), begin)
	require.NoError(t, err, file)
	return text
}

// A page without the place for what is written is refused.
func TestWriteNeedsItsPlace(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/page.md"
	require.NoError(t, os.WriteFile(file, []byte("a\n"+readmeBegin+"old\n"+writtenEnd+"z\n"), 0o644))
	require.NoError(t, replaceIn(file, readmeBegin, "new\n"))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "a\n"+readmeBegin+"new\n"+writtenEnd+"z\n", string(text))
	require.Error(t, replaceIn(file, "<!-- goals -->\n", "new\n"))
}

// Lines are 110 columns long at most.
func TestWrap(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("four ", 45)
	for line := range strings.Lines(wrap(words)) {
		require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 110)
	}
	require.Equal(t, strings.Fields(words), strings.Fields(wrap(words)))
}
