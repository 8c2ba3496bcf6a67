//go:build pictures

package metrics

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// painter is the program that makes the pictures.
var painter = cmp.Or(os.Getenv("RLOCK_PICTURES"), "chromium")

// TestPictures makes the pictures of the dashboard in docs, from what Prometheus answers to its queries while
// real locks are used. No Grafana takes part: testdata/picture.html draws the panels at their places.
//
//	RLOCK_PICTURES=chromium go test -tags pictures -count=1 -run TestPictures .
func TestPictures(t *testing.T) {
	for name, happen := range map[string]func(t *testing.T, s *env.Server){
		"quiet": func(*testing.T, *env.Server) { time.Sleep(3 * time.Minute) },
		"outage": func(t *testing.T, s *env.Server) {
			time.Sleep(time.Minute)
			s.Do(t, "DEL", "leader:0") // whose holder loses it
			time.Sleep(30 * time.Second)
			s.Kill()
			time.Sleep(45 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			picture(t, filepath.Join("../../docs", "dashboard-"+name+".png"), happen)
		})
	}
}

// picture has two programs use locks, and draws the dashboard when happen returns.
func picture(t *testing.T, file string, happen func(*testing.T, *env.Server)) {
	ctx, stop := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	defer programs.Wait()
	defer stop()
	server := env.Start(t)
	var targets []string
	for i := range 2 {
		registry := client.NewRegistry()
		observer, err := rlockprom.NewObserver(registry, class)
		require.NoError(t, err)
		locker := env.OpenOn(t, server, rlock.WithObserver(observer))
		require.NoError(t, registry.Register(rlockprom.NewCollector(locker)))
		target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		defer target.Close()
		targets = append(targets, strings.TrimPrefix(target.URL, "http://"))
		for _, work := range works(locker, i) {
			programs.Go(func() {
				for ctx.Err() == nil {
					work(ctx)
				}
			})
		}
	}
	p := startPrometheus(t, alerts(t), targets...)
	start := time.Now()
	happen(t, server)
	p.draw(file, start, time.Now())
}

// works are what the callers of a program do again and again.
func works(locker *rlock.Locker, program int) (all []func(context.Context)) {
	some := func(most time.Duration) { time.Sleep(rand.N(most)) }
	for range 4 {
		all = append(all, func(ctx context.Context) { // for a short time, and patient for five seconds
			patient, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			key := fmt.Sprint("order:", rand.IntN(6))
			_, _ = locker.Check(patient, key)
			_ = locker.Do(patient, key,
				func(context.Context, *rlock.Lock) error { some(40 * time.Millisecond); return nil })
			some(120 * time.Millisecond)
		})
	}
	return append(all, func(ctx context.Context) { // for longer, and the other program waits for it
		patient, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_ = locker.Do(patient, "report:daily",
			func(context.Context, *rlock.Lock) error { some(time.Second); return nil })
		some(2 * time.Second)
	}, func(ctx context.Context) { // without an end
		patient, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		lock, err := locker.Acquire(patient, fmt.Sprint("leader:", program), rlock.WithTTL(3*time.Second),
			rlock.WithAutoExtend(true))
		if err == nil {
			<-lock.Context().Done()
		}
		some(time.Second)
	}, func(ctx context.Context) { // if nobody has it
		if lock, err := locker.TryAcquire(ctx, "order:0"); err == nil {
			_ = lock.Release(ctx)
		}
		some(3 * time.Second)
	})
}

// line is one of a panel.
type line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// draw makes a picture of the dashboard from what Prometheus knows of a time.
func (p *prometheus) draw(file string, from, to time.Time) {
	p.t.Helper()
	text, err := os.ReadFile("../../rlock/rlockprom/dashboard.json")
	require.NoError(p.t, err)
	var all struct{ Panels []map[string]any }
	require.NoError(p.t, json.Unmarshal(text, &all))
	for i, panel := range readBoard(p.t).Panels {
		lines := []line{}
		for _, target := range panel.Targets {
			lines = append(lines, p.lines(target.Expr, target.LegendFormat, from, to)...)
		}
		all.Panels[i]["lines"] = lines
	}
	data, err := json.Marshal(map[string]any{"panels": all.Panels, "from": from.Unix(), "to": to.Unix()})
	require.NoError(p.t, err)
	page, err := os.ReadFile("testdata/picture.html")
	require.NoError(p.t, err)
	path := filepath.Join(p.t.TempDir(), "picture.html")
	require.NoError(p.t, os.WriteFile(path,
		bytes.Replace(page, []byte("= DATA"), append([]byte("= "), data...), 1), 0o600))
	file, err = filepath.Abs(file)
	require.NoError(p.t, err)
	command := exec.CommandContext(p.t.Context(), painter, "--headless", "--no-sandbox", "--hide-scrollbars",
		"--window-size=1400,1900",
		"--user-data-dir="+p.t.TempDir(), "--screenshot="+file, "file://"+path)
	output, err := command.CombinedOutput()
	require.NoError(p.t, err, "%s", output)
	small(p.t, file)
}

// small keeps the 256 most frequent colours of a picture, which makes it a third as large.
func small(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	full, err := png.Decode(bytes.NewReader(text))
	require.NoError(t, err)
	count := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			count[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(full.Bounds(), colours[:min(256, len(colours))])
	draw.Draw(few, few.Bounds(), full, image.Point{}, draw.Src)
	var written bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&written, few))
	require.NoError(t, os.WriteFile(file, written.Bytes(), 0o644))
}

// lines returns what Prometheus answers to a query over a time.
func (p *prometheus) lines(query, legend string, from, to time.Time) (lines []line) {
	p.t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	at := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	p.get("/api/v1/query_range?step=1&start="+at(from)+"&end="+at(to)+"&query="+
		url.QueryEscape(variables.Replace(query)), &data)
	for _, r := range data.Result {
		l := line{Name: regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(legend,
			func(label string) string { return r.Metric[label[2:len(label)-2]] })}
		for _, v := range r.Values {
			value, err := strconv.ParseFloat(v[1].(string), 64)
			require.NoError(p.t, err)
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				l.Points = append(l.Points, [2]float64{v[0].(float64), value})
			}
		}
		if len(l.Points) > 0 {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.Name, b.Name) })
	return lines
}
