package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

const (
	batch = 500 // programs that the generator reads in one run
	runs  = 6   // runs of an accepted program
	again = 3   // repetitions of a run with a fault that time may have caused
)

// hole is an accepted program that the generator should refuse, as the server shows. A hole may
// also be a kind of programs that the generator refuses without need.
type hole struct {
	program *Program // nil: the hole concerns many programs
	engine  string
	seed    uint64
	fault   fault
}

func (h hole) String() string {
	if h.program == nil {
		return fmt.Sprintf("%s (seed %d)", h.fault, h.seed)
	}
	first := h.program.number() / batch * batch
	return fmt.Sprintf("%s\n%s\n%s of seed %d, on %s; to see it again: go test -count=1 -run=TestOracle "+
		"./rlock_test/oracle -args -oracle.seed=%d -first=%d -programs=%d",
		h.program.Text(), h.fault, h.program.Name, h.seed, h.engine, h.seed, first, batch)
}

// number is the number of the program, or 0 if the hole concerns many programs.
func (h hole) number() int {
	if h.program == nil {
		return 0
	}
	return h.program.number()
}

// tally counts programs with a feature.
type tally struct {
	accepted, refused, holes int
	right                    int    // accepted programs without a mistake
	alarms                   int    // refused programs without a mistake
	sample                   string // one of these refused programs
}

// report is what a search has seen.
type report struct {
	seed              uint64
	accepted, refused int
	alarms            int // refused programs without a mistake
	calls             int
	holes             []hole
	features          map[string]*tally
	findings          map[string]int    // refused programs by their first finding, without names
	samples           map[string]string // by finding, the shortest refused program without a mistake
	kinds             map[string]int    // holes
	bindings          int               // bindings that were called
	barred            map[string]bool   // features that no accepted program has
	rules             map[string]*tally // programs that each rule judged, and programs that it refused first
	passing           []hole            // faults that did not come again
}

// hunt is a search for holes.
type hunt struct {
	generator generator
	servers   []*server
	seed      uint64 // of the programs
	first     int    // the number of the first program
	shrinks   bool   // shrink each hole, so that a person sees what matters
}

// search writes programs until enough returns true for the report. It keeps the first hole of each
// kind.
func (h hunt) search(ctx context.Context, enough func(*report) bool) (*report, error) {
	g, servers, seed := h.generator, h.servers, h.seed
	found := &report{seed: seed, features: map[string]*tally{}, findings: map[string]int{},
		samples: map[string]string{}, kinds: map[string]int{}, barred: map[string]bool{},
		rules: map[string]*tally{}}
	var waiting []bound // programs whose bindings are not yet called
	ctx, cancel := context.WithCancel(ctx)
	next := g.judgement(ctx, seed, h.first)
	defer func() {
		cancel()
		<-next
	}()
	for number := h.first; !enough(found); number += batch {
		j := <-next
		next = g.judgement(ctx, seed, number+batch) // beside the runs, which mostly wait for servers
		if j.err != nil {
			return nil, j.err
		}
		results, err := j.examine(ctx, servers)
		if err != nil {
			return nil, err
		}
		sample := sampled
		for i, p := range j.programs {
			rule, ok := j.accepted[p.Name]
			if !ok {
				found.refusal(p, j.refused[p.Name])
				continue
			}
			found.acceptance(p, rule)
			s := serverOf(servers, p)
			if passing := results[i].passing; passing != nil {
				found.passing = append(found.passing, hole{p, s.engine, seed, *passing})
			}
			f := results[i].fault
			if f == nil {
				if sample > 0 && !p.Trusting && !p.Texts {
					waiting = append(waiting, bound{p, rule, drawn(seed, p)})
					sample--
				}
				continue
			}
			found.count(p, func(t *tally) { t.holes++ })
			if found.kinds[f.kind]++; found.kinds[f.kind] > 1 {
				continue
			}
			shown := hole{p, s.engine, seed, *f}
			if h.shrinks {
				if shown, err = shrink(ctx, g, s, shown); err != nil {
					return nil, err
				}
			}
			found.holes = append(found.holes, shown)
		}
		found.refusals()
		if len(waiting) >= bundle {
			if err := found.bind(ctx, g, servers[number/batch%len(servers)], waiting); err != nil {
				return nil, err
			}
			waiting = nil
		}
	}
	if len(waiting) > 0 && len(found.holes) == 0 {
		if err := found.bind(ctx, g, servers[0], waiting); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// serverOf returns the server that a program runs on.
func serverOf(servers []*server, p *Program) *server {
	return servers[p.number()%len(servers)]
}

// drawn is the seed for the random data of a program's runs.
func drawn(seed uint64, p *Program) uint64 { return seed ^ uint64(p.number()) }

// judgement is what the generator says of a batch of programs.
type judgement struct {
	seed     uint64
	programs []*Program
	accepted map[string]rule   // by name
	refused  map[string]string // the first finding, by name
	err      error
}

// judgement makes the generator judge a batch. The batch begins with program number first. The
// returned channel gets the judgement.
func (g generator) judgement(ctx context.Context, seed uint64, first int) <-chan judgement {
	made := make(chan judgement, 1)
	go func() {
		j := judgement{seed: seed, programs: make([]*Program, batch)}
		for i := range j.programs {
			j.programs[i] = Write(seed, first+i)
		}
		j.accepted, j.refused, j.err = g.judge(ctx, j.programs)
		made <- j
	}()
	return made
}

// result is what the runs of an accepted program have shown.
type result struct {
	fault, passing *fault
}

// examine runs the accepted programs. It runs the programs of one server one after the other. It
// returns a result for each program.
func (j judgement) examine(ctx context.Context, servers []*server) ([]result, error) {
	results := make([]result, len(j.programs))
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for n, s := range servers {
		wg.Go(func() {
			for i, p := range j.programs {
				rule, ok := j.accepted[p.Name]
				if !ok || serverOf(servers, p) != s {
					continue
				}
				var err error
				results[i].fault, results[i].passing, err = examine(ctx, s, p, rule, drawn(j.seed, p))
				if err != nil {
					errs[n] = fmt.Errorf("%s\n%s: %w", p.Text(), p.Name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// refusal notes a program that the generator refused, with its first finding.
func (r *report) refusal(p *Program, finding string) {
	r.refused++
	text := shorten(finding)
	if !p.Mistaken() {
		text = "(no mistake) " + text
		r.alarms++
		if sample, ok := r.samples[text]; !ok || len(p.Text()) < len(sample) {
			r.samples[text] = p.Text() + finding
		}
	}
	r.findings[text]++
	r.rule(ruleOf(finding)).refused++
	r.count(p, func(t *tally) {
		if t.refused++; !p.Mistaken() {
			t.alarms++
			t.sample = p.Text() + finding
		}
	})
}

// acceptance notes an accepted program that has run.
func (r *report) acceptance(p *Program, rule rule) {
	r.accepted++
	r.calls += runs
	for name := range rule.Rules {
		r.rule(name).accepted++
	}
	r.count(p, func(t *tally) {
		if t.accepted++; !p.Mistaken() {
			t.right++
		}
	})
}

// refusals finds features that no accepted program has, although many programs with the feature
// have no mistake. People who write such scripts could not use the generator.
func (r *report) refusals() {
	const many = 20
	for _, name := range slices.Sorted(maps.Keys(r.features)) {
		if f := r.features[name]; f.right == 0 && f.alarms >= many && !r.barred[name] {
			r.barred[name] = true
			if r.kinds["refusal"]++; r.kinds["refusal"] == 1 {
				r.holes = append(r.holes, hole{seed: r.seed,
					fault: fault{kind: "refusal",
						why: fmt.Sprintf("no program with the feature %q is accepted, not even this one:\n%s", name,
							f.sample)}})
			}
		}
	}
}

// bind calls the bindings of accepted programs.
func (r *report) bind(ctx context.Context, g generator, s *server, programs []bound) error {
	faults, err := s.bindings(ctx, g, programs)
	if err != nil {
		return err
	}
	r.bindings += len(programs)
	for _, b := range programs {
		f, ok := faults[b.program.Name]
		if !ok {
			continue
		}
		r.count(b.program, func(t *tally) { t.holes++ })
		if r.kinds[f.kind]++; r.kinds[f.kind] == 1 {
			r.holes = append(r.holes, hole{program: b.program, engine: s.engine, seed: r.seed, fault: f})
		}
	}
	return nil
}

// examine runs an accepted program several times. A fault that time can cause counts only if it
// comes again with the same data. Else the fault is passing.
func examine(ctx context.Context, s *server, p *Program, r rule, seed uint64) (f, passing *fault, err error) {
	for n := range runs {
		run := func() (*fault, error) { return s.run(ctx, p, r, rand.New(rand.NewPCG(seed, uint64(n)))) }
		if f, err = run(); err != nil || f != nil && !f.timed() {
			return f, passing, err
		}
		if f == nil {
			continue
		}
		passing = f
		for range again {
			if f, err = run(); f != nil || err != nil {
				return f, nil, err
			}
		}
	}
	return nil, passing, nil
}

// shrink removes lines from a program, so that a person sees what matters. The smaller program must
// still be accepted and have a fault of the same kind.
func shrink(ctx context.Context, g generator, s *server, small hole) (hole, error) {
	for _, size := range []int{16, 8, 4, 2, 1, 3, 2, 1} {
		for from := 0; ; {
			lines := strings.SplitAfter(small.program.Body, "\n")
			if from >= len(lines)-1 { // the last line is the empty rest
				break
			}
			if endsLoop(lines[from:min(from+size, len(lines)-1)]) {
				from += size
				continue
			}
			candidate := *small.program
			candidate.Body = strings.Join(slices.Delete(lines, from, min(from+size, len(lines)-1)), "")
			candidate.Body, candidate.Keys = prune(candidate.Body, "KEYS", candidate.Keys)
			candidate.Body, candidate.Args = prune(candidate.Body, "ARGV", candidate.Args)
			accepted, _, err := g.judge(ctx, []*Program{&candidate})
			if err != nil {
				return hole{}, err
			}
			if rule, ok := accepted[candidate.Name]; ok {
				same, _, err := examine(ctx, s, &candidate, rule, drawn(small.seed, &candidate))
				if err != nil {
					return hole{}, err
				}
				if same != nil && same.kind == small.fault.kind {
					small.program, small.fault = &candidate, *same
					continue
				}
			}
			from += size
		}
	}
	return small, nil
}

// endsLoop reports whether one of the lines may end a loop. Without this line, the program would
// block its server for ever.
func endsLoop(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "break") || strings.Contains(line, " + 1")
	})
}

func (r *report) count(p *Program, add func(*tally)) {
	for _, feature := range append([]string{"mode " + p.Mode, "guard of kind " + cmp.Or(p.Guard, "none")},
		p.Features...) {
		if r.features[feature] == nil {
			r.features[feature] = &tally{}
		}
		add(r.features[feature])
	}
}

// rule returns the tally of a rule of the generator.
func (r *report) rule(name string) *tally {
	if r.rules[name] == nil {
		r.rules[name] = &tally{}
	}
	return r.rules[name]
}

// ruleOf returns the name of the rule that made a finding.
func ruleOf(text string) string {
	if i := strings.LastIndex(text, " ["); i >= 0 && strings.HasSuffix(text, "]") {
		return text[i+2 : len(text)-1]
	}
	return "the text of a script"
}

// shorten removes the names and numbers from a finding, so that equal findings count together.
func shorten(text string) string {
	var b strings.Builder
	for _, word := range strings.Fields(text) {
		if strings.ContainsAny(word, "0123456789'\"()[]{}") {
			word = "…"
		}
		if b.Len() > 90 {
			break
		}
		b.WriteString(word + " ")
	}
	return strings.TrimSpace(b.String())
}

// programs returns the number of accepted and refused programs.
func (r *report) programs() int { return r.accepted + r.refused }

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d programs: %d refused (%d of them without a mistake), %d accepted and run %d "+
		"times, %d of them through their bindings, holes: %v\n", r.seed, r.programs(), r.refused, r.alarms,
		r.accepted, r.calls, r.bindings, r.kinds)
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tasked of accepted programs\trefused by it")
	for _, name := range slices.Sorted(maps.Keys(r.rules)) {
		fmt.Fprintf(t, "%s\t%d\t%d\n", name, r.rules[name].accepted, r.rules[name].refused)
	}
	fmt.Fprintln(t, "\nprograms made of\taccepted\trefused\tholes")
	for _, name := range slices.Sorted(maps.Keys(r.features)) {
		f := r.features[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\n", name, f.accepted, f.refused, f.holes)
	}
	t.Flush()
	for _, h := range r.passing {
		fmt.Fprintf(&b, "seen once, and not when it was done again, so that time may be the cause:\n%v\n", h)
	}
	findings := make([]string, 0, len(r.findings))
	for text := range r.findings {
		findings = append(findings, text)
	}
	slices.SortFunc(findings, func(x,
		y string) int {
		return cmp.Or(r.findings[y]-r.findings[x], strings.Compare(x, y))
	})
	b.WriteString("refused, by their first finding:\n")
	for _, text := range findings {
		fmt.Fprintf(&b, "%6d  %s\n", r.findings[text], text)
	}
	return b.String()
}

// alarmed shows one program for each finding about programs without a mistake.
func (r *report) alarmed() string {
	var b strings.Builder
	for _, text := range slices.Sorted(maps.Keys(r.samples)) {
		fmt.Fprintf(&b, "%d programs without a mistake are refused as this one is:\n%s\n\n", r.findings[text],
			r.samples[text])
	}
	return b.String()
}
