package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

// unpacked returns the path of prometheus or promtool.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "../engines.sh", name)
	command.Env = append(os.Environ(), "RLOCK_SERVERS=") // which is about servers for locks
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, "%s cannot be unpacked from Debian's packages, which need apt-get, dpkg-deb and "+
		"their mirror: %s", name, &stderr)
	return strings.TrimSpace(string(output))
}

// alerts is the file of the rules.
func alerts(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../rlock/rlockprom/alerts.yml")
	require.NoError(t, err)
	return path
}

// prometheus is a running one that scrapes a target.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus returns one that scrapes targets twice a second and looks at the file of rules as often.
func startPrometheus(t *testing.T, rules string, targets ...string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: shop
    static_configs: [{targets: [%s]}]
`, rules, strings.Join(targets, ", ")), 0o600))
	program := unpacked(t, "prometheus")
	for range 5 {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		address := listener.Addr().String()
		require.NoError(t, listener.Close())
		running := make(chan error, 1)
		command := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+t.TempDir(),
			"--web.listen-address="+address, "--log.level=warn")
		var log bytes.Buffer
		command.Stdout, command.Stderr = &log, &log
		require.NoError(t, command.Start())
		go func() { running <- command.Wait() }()
		ended := false
		stop := func() {
			if !ended {
				_ = command.Process.Kill()
				<-running
				ended = true
			}
		}
		t.Cleanup(stop)
		p := &prometheus{t, "http://" + address}
		for end := time.Now().Add(patience); !ended && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if p.ready() {
				return p
			}
			select {
			case <-running: // somebody has taken its port
				ended = true
			default:
			}
		}
		stop()
		t.Logf("Prometheus at %s: %s", address, &log)
	}
	t.Fatal("Prometheus does not start")
	return nil
}

func (p *prometheus) ready() bool {
	response, err := http.Get(p.url + "/-/ready")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// get reads an answer of the API.
func (p *prometheus) get(path string, data any) {
	p.t.Helper()
	response, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(p.t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(p.t, "success", answer.Status, answer.Error)
}

// value returns the only value of a query, if there is one.
func (p *prometheus) value(query string) (value float64, known bool) {
	p.t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.get("/api/v1/query?query="+url.QueryEscape(query), &data)
	if len(data.Result) != 1 {
		return 0, false
	}
	value, err := strconv.ParseFloat(fmt.Sprint(data.Result[0].Value[1]), 64)
	require.NoError(p.t, err)
	return value, true
}

// patience is how long Prometheus may take, on a machine that does other things too.
const patience = time.Minute

// soon waits until Prometheus knows something. It asks no more often than Prometheus could bear.
func (p *prometheus) soon(condition func() bool, what string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(50 * time.Millisecond) {
		require.True(p.t, time.Now().Before(end), "it does not come about that %s", what)
	}
}

// shows waits until a query has a value.
func (p *prometheus) shows(query string, want float64) {
	p.t.Helper()
	p.soon(func() bool {
		value, known := p.value(query)
		return known && value == want
	}, fmt.Sprintf("%s is %v", query, want))
}

// firing returns the alerts that ring.
func (p *prometheus) firing() (names []string) {
	p.t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	p.get("/api/v1/alerts", &data)
	for _, a := range data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	return names
}
