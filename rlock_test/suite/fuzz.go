package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hung explains the end of a fuzzer's process, which go test does not explain.
const hung = "It panicked, or go test ended it because the case took more than 10 seconds, be it for a busy " +
	"machine. Run the case as a test.\n"

// timed explains a failure that Go before 1.27 sometimes reports when the time of a fuzzer is over.
const timed = "It has found nothing: this is a flaw of Go before 1.27, see go.dev/issue/75804.\n"

// endFuzzer prints how much a fuzzer has tried, and with which case the fuzzer failed.
func (r *report) endFuzzer(t *test) {
	if t.fuzzed == "" {
		return
	}
	fmt.Fprint(r.w, t.fuzzed)
	if t.outcome == "pass" && !strings.Contains(t.fuzzed, "execs: ") {
		r.leftOut = append(r.leftOut,
			t.name+": new cases, because the committed ones took all of its time; give it more, such as FUZZTIME=1m")
	}
	if strings.Contains(t.output.String(), "hung or terminated unexpectedly") {
		t.output.WriteString(hung)
	}
	if strings.Contains(t.output.String(), "    context deadline exceeded\n") &&
		!strings.Contains(t.output.String(), "Failing input written to ") {
		t.output.WriteString(timed)
	}
	for line := range strings.Lines(t.output.String()) {
		file, ok := strings.CutPrefix(strings.TrimSpace(line), "Failing input written to ")
		if !ok {
			continue
		}
		file = filepath.Join(r.step.dir, r.step.fuzz, filepath.FromSlash(file))
		text, err := os.ReadFile(file)
		if err != nil {
			text = []byte(err.Error())
		}
		t.output.WriteString("The case is " + filepath.ToSlash(file) + ":\n" + strings.TrimSpace(string(text)) +
			"\n")
		return
	}
}
