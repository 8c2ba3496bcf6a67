package main

//lint:file-ignore SA1019 The older of two schemas, which every Grafana from 10 on loads.

import (
	"os"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/require"
)

// The file is what the panels make, and what Grafana's schema accepts.
func TestDashboardIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := render()
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text), "go generate -C rlock_test/metrics ./... writes it")
	var read dashboard.Dashboard
	require.Empty(t, read.UnmarshalJSONStrict(text)) // what it returns is never nil
	require.NoError(t, read.Validate())
}
