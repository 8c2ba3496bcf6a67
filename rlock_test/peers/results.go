package peers

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// section is a part of the results.
type section interface {
	title() string
	about() (workload, why string)
	rows() []row
}

// results are everything that a run has measured.
type results struct {
	began    time.Time
	server   string
	plan     plan
	sections []section
}

func (r *results) add(s section) {
	r.sections = append(r.sections, s)
	fmt.Printf("\n%s\n%s", s.title(), text(s.rows()))
}

// find returns a comparison, or nil if the run did not make it.
func (r *results) find(workload string, level int) *comparison {
	for _, s := range r.sections {
		if c, ok := s.(comparison); ok && c.workload.name == workload && c.level == level {
			return &c
		}
	}
	return nil
}

// all returns the comparisons of a workload, level by level.
func (r *results) all(workload string) (list []*comparison) {
	for _, s := range r.sections {
		if c, ok := s.(comparison); ok && c.workload.name == workload {
			list = append(list, &c)
		}
	}
	return list
}

// circumstances say when, on what machine and with which versions the run measured the results.
func (r *results) circumstances() string {
	return fmt.Sprintf("Measured on %s. Client and server share a machine of %d processors (%s). Versions: "+
		"%s, "+
		"%s, %s. Every figure is the median of %d rounds of %v.",
		r.began.Format("2 January 2006"), runtime.NumCPU(), processor(), r.server, runtime.Version(),
		strings.Join(versions(), ", "), r.plan.rounds, r.plan.round)
}

// versions are the versions of the libraries, from go.mod. rueidislock is a part of rueidis.
func versions() (list []string) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "github.com/redis/rueidis", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4",
			"github.com/redis/go-redis/v9":
			list = append(list, strings.TrimPrefix(words[0], "github.com/")+" "+words[1])
		}
	}
	return list
}

// sheet is all results as data. Its first comment is the provenance of the results.
func (r *results) sheet(provenance string) sheet {
	s := sheet{comments: []string{
		provenance,
		"A column that ends in _to_first is a ratio to the first row of the same workload and level.",
		"The ratio is the median of the ratios of each round. So is per_second_to_best_peer.",
		"An op is one operation of the workload. An empty cell has no figure.",
		"Among processes, the setting is the guest. The latency is that of the guest, the rate that of the " +
			"processes.",
	}}
	settings, told := map[string]bool{}, map[string]bool{}
	var workloads []string
	for _, part := range r.sections {
		s.rows = append(s.rows, part.rows()...)
		if workload, why := part.about(); !told[why] {
			told[why] = true
			workloads = append(workloads, fmt.Sprintf("Workload %s: %s.", workload, why))
		}
	}
	for _, r := range s.rows {
		settings[r[colSetting]] = true
	}
	for _, d := range slices.Concat(drivers(), []driver{combiningFloor(), withoutServer()}, sharingDrivers()) {
		if settings[d.name] {
			s.comments = append(s.comments, fmt.Sprintf("Setting %s: %s.", d.name, d.settings))
		}
	}
	s.comments = append(s.comments, workloads...)
	return s
}

// processor names the machine's processor, if the machine tells it.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	for in := bufio.NewScanner(file); in.Scan(); {
		if name, value, _ := strings.Cut(in.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
