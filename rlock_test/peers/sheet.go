package peers

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one line of the results: a setting of a library in a workload at a level. Its keys are
// names of columns. A figure that the run did not measure is absent.
type row map[string]string

// sheet is all results as data.
type sheet struct {
	comments []string
	rows     []row
}

// Columns without a figure of a comparison.
const (
	colWorkload  = "workload"
	colLevel     = "level"
	colCounts    = "level_counts"
	colSetting   = "setting"
	colHung      = "hung"
	colEachTakes = "us_per_op"
	colPerSecond = "per_second"
	colScripts   = "scripts_per_op"
	colServer    = "server_us_per_op"
	colClient    = "client_us_per_op"
	colAllocs    = "allocations_per_op"
	colMore      = "goroutines"
	colScriptsIn = "scripts_per_second"
	colHeap      = "heap_bytes_per_lock"
	colClientCPU = "client_core_percent"
	colServerCPU = "server_core_percent"
)

// names are all columns, in the order of the file.
func names() []string {
	list := []string{colWorkload, colLevel, colCounts, colSetting}
	for _, c := range columns {
		list = append(list, c.name)
	}
	return append(list, colHung, colEachTakes, colScriptsIn, colHeap, colClientCPU, colServerCPU)
}

// csv writes the sheet: its comments, the names of the columns, the rows.
func (s sheet) csv() string {
	var b strings.Builder
	for _, c := range s.comments {
		fmt.Fprintf(&b, "# %s\n", c)
	}
	w := csv.NewWriter(&b)
	_ = w.Write(names())
	for _, r := range s.rows {
		_ = w.Write(r.cells(names()))
	}
	w.Flush()
	return b.String()
}

func (r row) cells(columns []string) (list []string) {
	for _, name := range columns {
		list = append(list, r[name])
	}
	return list
}

// readSheet reads what csv has written.
func readSheet(file string) (sheet, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return sheet{}, err
	}
	return parseSheet(string(text))
}

func parseSheet(text string) (s sheet, err error) {
	for line := range strings.Lines(text) {
		comment, is := strings.CutPrefix(line, "# ")
		if !is {
			break
		}
		s.comments = append(s.comments, strings.TrimSuffix(comment, "\n"))
	}
	in := csv.NewReader(strings.NewReader(text))
	in.Comment = '#'
	lines, err := in.ReadAll()
	if err != nil {
		return s, err
	}
	if len(lines) == 0 || !slices.Equal(lines[0], names()) {
		return s, errors.New("the columns are not those that the benchmark writes")
	}
	for _, line := range lines[1:] {
		r := row{}
		for i, cell := range line {
			if cell != "" {
				r[lines[0][i]] = cell
			}
		}
		s.rows = append(s.rows, r)
	}
	return s, nil
}

// find returns the row of the setting with the name. If there is none, it returns the row of the
// fastest setting whose name begins with the name; see bestOf. If there is no row, it returns nil.
func (s sheet) find(workload string, level int, setting string) row {
	var best row
	for _, r := range s.rows {
		if r[colWorkload] != workload || r[colLevel] != strconv.Itoa(level) {
			continue
		}
		if r[colSetting] == setting {
			return r
		}
		if strings.HasPrefix(r[colSetting], setting) && r[colHung] == "" &&
			(best == nil || r.number(colPerSecond) > best.number(colPerSecond)) {
			best = r
		}
	}
	return best
}

// number returns a figure, or 0 if the run did not measure it.
func (r row) number(column string) float64 {
	f, _ := strconv.ParseFloat(r[column], 64)
	return f
}

// text shows rows on a terminal, without the columns that are empty in all rows.
func text(rows []row) string {
	var (
		b    strings.Builder
		w    = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		used = slices.DeleteFunc(names(), func(name string) bool {
			return name == colWorkload || name == colLevel || name == colCounts ||
				!slices.ContainsFunc(rows, func(r row) bool { return r[name] != "" })
		})
	)
	fmt.Fprintln(w, strings.Join(used, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r.cells(used), "\t"))
	}
	w.Flush()
	return b.String()
}

// plain writes a number with three digits. A number below 10,000 keeps all digits before its point.
func plain(f float64) string {
	if f >= 100 && f < 1e4 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// micros writes a duration in microseconds, with three digits.
func micros(ns float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(ns/1000, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

func ratio(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
