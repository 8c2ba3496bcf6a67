package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Processes with so many callers that their calls go together, under the faults of their topology:
// replies to whole scripts are lost, scripts are forgotten, and a primary is replaced.
func TestCrowds(t *testing.T) {
	for i, name := range []string{"server", "sentinel", "forgetful server"} {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(topologies, func(topology topology) bool { return topology.name == name })
			p := draw(uint64(time.Now().UnixNano())%1_000_000, i+1, env.Engines(t))
			p.topology, p.crowd = topologies[at], crowdCallers
			r := newRound(t, p)
			h := r.run()
			report := h.examine()
			report.violations = append(report.violations, r.findings...)
			fmt.Printf("chaos: a crowd, %s, %s\n%s", p.engine.Version, name, report)
			if len(report.violations) > 0 {
				t.Errorf("%d violations; the history is in %s", len(report.violations), saved(t, h))
			}
			if name == "server" {
				require.Positive(t, r.lostMany.Load(), "replies to scripts for many calls were lost")
			}
		})
	}
}

// mixedUp is rlock on a client that gives two calls of a script each other's answer.
const mixedUp = "rlock, with answers for others"

func init() {
	services[mixedUp] = func(option rueidis.ClientOption, _ int) (lockService, error) {
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		mixed := &mixingClient{client}
		locker, err := rlock.New(mixed)
		return rlockService{locker, mixed}, err
	}
}

// mixingClient gives a call of a script that takes many locks the answer of another one.
type mixingClient struct{ rueidis.Client }

func (c *mixingClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	words := command.Commands()
	if len(words) < 2 || words[1] != gen.AcquireManySHA1 {
		return c.Client.Do(ctx, command)
	}
	reply := c.Client.Do(ctx, command)
	answers, err := reply.AsIntSlice()
	if err != nil {
		return reply
	}
	for i := 2; i < len(answers); i += 2 {
		if answers[i] != answers[0] { // one has its lock, the other does not
			answers[0], answers[1], answers[i], answers[i+1] = answers[i], answers[i+1], answers[0], answers[1]
			break
		}
	}
	texts := make([]string, len(answers))
	for i, n := range answers {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return c.Client.Do(ctx, c.Client.B().Eval().Script("local all = {} for i, n in ipairs(ARGV) do all[i] = "+
		"tonumber(n) end return all").
		Numkeys(0).Arg(texts...).Build())
}

// A combiner that mixes up the answers of two callers is found.
func TestMixedUpAnswersAreFound(t *testing.T) {
	quiet := topology{name: "server", keeps: true, start: func(r *round) {
		s := r.engine.Start(r.t)
		r.servers = func() []*env.Server { return []*env.Server{s} }
		for place := range processes {
			r.addresses[place] = []string{s.Addr()}
		}
	}}
	missing := true
	for number := 1; missing && number <= 3; number++ {
		r := newRound(t, plan{
			seed: 1, number: number, engine: env.Engines(t)[0], topology: quiet,
			service: mixedUp, ttls: leasesOfRound, load: 3 * time.Second, crowd: crowdCallers,
		})
		report := r.run().examine()
		t.Logf("\n%s", report)
		missing = !slices.ContainsFunc(report.violations,
			func(v violation) bool { return v.check == "two holders" })
	}
	require.False(t, missing, "nobody has found two holders")
}
