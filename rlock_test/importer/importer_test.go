// Package importer tests what it does to a module to import rlock.
package importer

import (
	"archive/zip"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

var update = flag.Bool("update", false, "rewrite the expected texts in testdata")

const (
	root    = "../.."
	module  = "github.com/rlock-go/toolkit"
	version = "v0.1.0" // the next version of all modules
)

// published are the modules that have versions, as suffixes of the root module.
var published = []string{"", "/rlock/rlockprom", "/rlock/rlockotel", "/rlock/rlockmongo", "/redislua/goredis"}

const program = `package main

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	err = locker.Do(context.Background(), "job", func(context.Context, *rlock.Lock) error { return nil })
	fmt.Println(err)
}
`

const withPrometheus = `package main

import (
	"log"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
)

func main() {
	registry := prometheus.NewRegistry()
	observer, err := rlockprom.NewObserver(registry, strings.ToLower)
	if err != nil {
		log.Fatal(err)
	}
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, rlock.WithObserver(observer))
	if err != nil {
		log.Fatal(err)
	}
	registry.MustRegister(rlockprom.NewCollector(locker))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
}
`

const withOpenTelemetry = `package main

import (
	"log"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockotel"
)

func main() {
	observer, err := rlockotel.NewObserver(otel.GetMeterProvider(), nil)
	if err != nil {
		log.Fatal(err)
	}
	tracer, err := rlockotel.NewTracer(otel.GetTracerProvider(), nil)
	if err != nil {
		log.Fatal(err)
	}
	both := rlock.WithObserver(rlock.Observers(observer, tracer))
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, both)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	if _, err := rlockotel.Register(otel.GetMeterProvider(), locker); err != nil {
		log.Fatal(err)
	}
}
`

const withMongoDB = `package main

import (
	"context"
	"log"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmongo"
)

func main() {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:27017"))
	if err != nil {
		log.Fatal(err)
	}
	backend, err := rlockmongo.New(context.Background(), client.Database("jobs").Collection("locks"))
	if err != nil {
		log.Fatal(err)
	}
	locker, err := rlock.NewWithBackend(backend)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
}
`

// A stranger's module gets the modules of this repository from a module proxy, requires them without
// a replace directive, and builds with the Go that runs the test, of which make test-all has the oldest.
// Its requirements and its module graph are those in testdata: what is beside rueidis and its own
// is what rlock brings. Only who uses rlockprom gets something of Prometheus, and only who uses rlockotel
// something of OpenTelemetry, without an SDK, and only who uses rlockmongo something of MongoDB.
func TestStrangersGraph(t *testing.T) {
	env.Long(t)
	t.Parallel()
	proxy := t.TempDir()
	for _, suffix := range published {
		publish(t, proxy, suffix)
	}
	for name, stranger := range map[string]struct {
		program string
		get     []string
	}{
		"rlock":      {program, []string{module + "/rlock@" + version, "github.com/redis/rueidis"}},
		"rlockprom":  {withPrometheus, []string{module + "/rlock/rlockprom@" + version}},
		"rlockotel":  {withOpenTelemetry, []string{module + "/rlock/rlockotel@" + version}},
		"rlockmongo": {withMongoDB, []string{module + "/rlock/rlockmongo@" + version}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, cache := t.TempDir(), t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module example.test/stranger\n\ngo 1.25.0\n")
			write(t, filepath.Join(dir, "main.go"), stranger.program)

			env := strangersEnv(t, proxy, cache)
			goCommand(t, dir, env, append([]string{"get"}, stranger.get...)...)
			goCommand(t, dir, env, "build", "-o", filepath.Join(dir, "stranger.exe"), ".")
			goCommand(t, dir, env, "mod", "verify")
			if name != "rlock" { // go get has found out only what the module itself needs
				goCommand(t, dir, env, "mod", "tidy")
			}

			mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			require.NotContains(t, string(mod), "replace")
			compare(t, filepath.Join(name, "go.mod.txt"), string(mod))
			compare(t, filepath.Join(name, "graph.txt"), goCommand(t, dir, env, "list", "-m", "all"))
		})
	}
}

// strangersEnv is the environment in which a stranger's go command gets these modules from a proxy, and all
// others from where they come here.
func strangersEnv(t *testing.T, proxy, cache string) []string {
	t.Helper()
	known := strings.TrimSpace(goCommand(t, root, nil, "env", "GOMODCACHE"))
	proxies := []string{fileURL(proxy), fileURL(filepath.Join(known, "cache", "download")),
		strings.TrimSpace(goCommand(t, root, nil, "env", "GOPROXY"))}
	// With -trimpath the build cache knows the packages of a module cache of any name.
	return []string{"GOPROXY=" + strings.Join(proxies, ","), "GOMODCACHE=" + cache, "GOSUMDB=off",
		"GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath"}
}

func compare(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		write(t, path, text)
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text,
		"what a stranger gets has changed; where that is meant: go test ./rlock_test/importer -update")
}

// publish writes the files of a module of this repository into a module proxy, without those of the
// modules below it. The root has no suffix.
func publish(t *testing.T, proxy, suffix string) {
	t.Helper()
	root, module := root+suffix, module+suffix
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	write(t, filepath.Join(dir, version+".mod"), string(mod))
	write(t, filepath.Join(dir, version+".info"),
		fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version))
	write(t, filepath.Join(dir, "list"), version+"\n")

	file, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	defer file.Close()
	archive := zip.NewWriter(file)
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(root, name, "go.mod"))
			if err == nil || strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		to, err := archive.Create(module + "@" + version + "/" + name)
		if err != nil {
			return err
		}
		from, err := os.Open(filepath.Join(root, name))
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(to, from)
		return err
	}))
	require.NoError(t, archive.Close())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive of Windows
	}
	return "file://" + path
}

func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, "go %q: %s", args, stderr.String())
	return string(output)
}
