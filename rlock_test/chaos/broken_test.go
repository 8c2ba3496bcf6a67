package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Each flaw is found within seconds, in three rounds at most where it needs luck, and a
// lock without any is not blamed.
func TestBrokenLocks(t *testing.T) {
	short := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}
	keeping := func(faults func(r *round, s *env.Server, proxies [processes]*env.Proxy)) topology {
		return topology{name: "server", keeps: true, start: func(r *round) {
			s := r.engine.Start(r.t)
			r.servers = func() []*env.Server { return []*env.Server{s} }
			var proxies [processes]*env.Proxy
			for place := range processes {
				proxies[place] = env.NewProxy(r.t, s.Addr())
				r.addresses[place] = []string{proxies[place].Addr()}
			}
			faults(r, s, proxies)
		}}
	}
	none := func(*round, *env.Server, [processes]*env.Proxy) {}
	drops := func(r *round, _ *env.Server, proxies [processes]*env.Proxy) {
		for place, p := range proxies {
			r.faults = append(r.faults, func() fault {
				return fault{kind: "replies dropped", target: r.processName(place), process: r.members[place].number,
					begin: func() {
						p.DropReply(env.Contains("redis.call('SET'")) // one, so that the next try is answered
					}}
			})
		}
	}
	flushes := topology{name: "forgetful", start: func(r *round) {
		s := r.engine.Start(r.t)
		r.servers = func() []*env.Server { return []*env.Server{s} }
		r.everybody([]string{s.Addr()})
		r.faults = []func() fault{r.flush(s)}
	}}
	for _, c := range []struct {
		flaw
		topology topology
		ttls     []time.Duration
		patience time.Duration
		sharing  int
		found    []string
	}{
		{flawless, topologies[0], leasesOfRound, 0, 30, nil},
		{flawless, flushes, short, 0, 30, nil},
		{endlessLease, keeping(none), short, 0, 0, []string{"two holders", "valid write refused"}},
		{prefixCompare, keeping(none), short, 0, 0, []string{"two holders", "no order"}},
		{blindRetry, keeping(drops), []time.Duration{time.Minute}, recovery + time.Second, 0,
			[]string{"no progress"}},
		{forgottenFence, flushes, short, 0, 0, []string{"fence not larger"}},
		{lastLease, keeping(none), short, 0, 90, []string{"two holders", "no order"}},
		{checkThenTake, keeping(none), short, 0, 90, []string{"too many permits", "no order"}},
	} {
		t.Run(string(c.flaw)+" on a "+c.topology.name, func(t *testing.T) {
			t.Parallel()
			missing := c.found
			for number := 1; number == 1 || len(missing) > 0 && number <= 10; number++ {
				r := newRound(t, plan{
					seed: 1, number: number, engine: env.Engines(t)[0], topology: c.topology,
					service: string(c.flaw), ttls: c.ttls, load: 4 * time.Second, patience: c.patience, sharing: c.sharing,
				})
				h := r.run()
				report := h.examine()
				report.violations = append(report.violations, r.findings...)
				t.Logf("\n%s", report)
				if c.found == nil && len(report.violations) > 0 {
					t.Fatalf("%v; the history is in %s", report.violations, saved(t, h))
				}
				missing = slices.DeleteFunc(slices.Clone(missing), func(check string) bool {
					return slices.ContainsFunc(report.violations, func(v violation) bool { return v.check == check })
				})
			}
			require.Empty(t, missing, "not found")
		})
	}
}
