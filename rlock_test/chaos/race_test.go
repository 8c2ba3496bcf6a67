//go:build race

package chaos

import (
	"io"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// racing is a lock without any flaw, beside which two goroutines write to the same variable.
const racing = "simple, beside a data race"

func init() {
	services[racing] = func(option rueidis.ClientOption, n int) (lockService, error) {
		written, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			written++
		}()
		written++
		<-done
		return services[string(flawless)](option, n)
	}
}

// A data race is found in every process: in those that end by themselves, and in one that is killed.
func TestRacesAreFound(t *testing.T) {
	quiet := topology{name: "server", keeps: true, start: func(r *round) {
		s := r.engine.Start(r.t)
		r.servers = func() []*env.Server { return []*env.Server{s} }
		r.everybody([]string{s.Addr()})
		r.faults = nil
		r.once = func() fault {
			kill := func() { r.replace(0) }
			return fault{kind: "process killed", target: r.processName(0), process: 1, late: true, begin: kill}
		}
	}}
	r := newRound(t, plan{
		seed: 1, number: 1, engine: env.Engines(t)[0], topology: quiet, service: racing, ttls: leasesOfRound,
		load: 2 * time.Second, errors: io.Discard,
	})
	r.disturb()
	r.settle()
	require.Len(t, r.kills, 1)
	require.Empty(t, r.findings)
	found := r.races()
	require.Len(t, found, processes+1)
	for _, v := range found {
		require.Contains(t, v.text, "chaos.init.", v.key)
		require.Contains(t, v.text, "race_test.go", v.key)
	}
}
