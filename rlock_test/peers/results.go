package peers

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// section is a part of the results.
type section interface {
	title() string
	markdown() string
}

// results are all that a run has measured.
type results struct {
	began    time.Time
	server   string
	plan     plan
	sections []section
}

func (r *results) add(s section) {
	r.sections = append(r.sections, s)
	fmt.Print("\n", s.markdown())
}

// find returns a comparison, or nil if it was not made.
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

// circumstances say when, on what and with which versions the results were measured.
func (r *results) circumstances() string {
	return fmt.Sprintf("%s, %d processors (%s), which client and server share; %s; %s; %s; medians of %d "+
		"rounds of %v.",
		r.began.Format("2 January 2006"), runtime.NumCPU(), processor(), r.server, runtime.Version(),
		strings.Join(versions(), ", "),
		r.plan.rounds, r.plan.round)
}

// versions are those of the libraries, from go.mod; rueidislock is a part of rueidis.
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

// settings tells how each library was used.
func settings() string {
	var b strings.Builder
	b.WriteString("| library | settings |\n|---|---|\n")
	for _, d := range append(drivers(), combiningFloor(), withoutServer()) {
		fmt.Fprintf(&b, "| %s | %s |\n", d.name, d.settings)
	}
	return b.String()
}

// processor names what the machine computes with, where that can be told.
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
