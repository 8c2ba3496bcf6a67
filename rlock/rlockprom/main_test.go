package rlockprom_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// inMemory returns a Locker on a server that can be in a bubble.
func inMemory(t *testing.T, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(rlocktest.StartInMemory(t).Option(), opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// scrape returns what Prometheus would get, line by line, without comments.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	series := map[string]string{}
	for line := range strings.Lines(text.String()) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), " "); found && !strings.HasPrefix(line, "#") {
			if at := strings.LastIndex(line, "} "); at >= 0 {
				name, value = line[:at+1], strings.TrimSpace(line[at+2:])
			}
			series[name] = value
		}
	}
	return series
}
