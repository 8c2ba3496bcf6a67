package importer

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// All modules for users require each other in the version that comes next, and the changes of that version
// are written down.
func TestModulesAgreeAboutTheVersion(t *testing.T) {
	t.Parallel()
	requirement := regexp.MustCompile(regexp.QuoteMeta(module) + `(?:/\S+)? (v\S+)`)
	var modules []string
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "rlock_test" || len(name) > 1 && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.Name() != "go.mod":
			return nil
		}
		modules = append(modules, strings.TrimPrefix("/"+filepath.ToSlash(filepath.Dir(name)), "/."))
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, required := range requirement.FindAllStringSubmatch(string(text), -1) {
			require.Equal(t, version, required[1], "%s requires another version", name)
		}
		return nil
	}))
	require.ElementsMatch(t, published, modules, "these modules have a version")

	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	newest := regexp.MustCompile(`(?m)^## (v\S+)`).FindStringSubmatch(string(changes))
	require.NotNil(t, newest, "the changelog has no version")
	require.Equal(t, version, newest[1], "the newest entry of the changelog")
}

const script = `-- Adds to a counter.
--
-- mode: write
-- KEYS[1] counter key  the counter
-- ARGV[1] by int  what to add
-- returns: int

return redis.call('INCRBY', KEYS[1], ARGV[1])
`

const withBindings = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/rueidis"

	"example.test/stranger/bindings"
	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{os.Args[1]}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = locker.Do(context.Background(), "job", func(ctx context.Context, lock *rlock.Lock) error {
		n, err := bindings.New().Count(ctx, locker.Client(), bindings.CountParams{Counter: "jobs", By: 2})
		fmt.Println(lock.Key(), n)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
`

const withGoRedis = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"example.test/stranger/bindings"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	defer client.Close()
	n, err := bindings.New().Count(context.Background(), client, bindings.CountParams{Counter: "jobs", By: 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("job", n)
}
`

// A stranger who has nothing but the version gets the generator from a module proxy, binds a script, and runs
// it under a lock with rueidis, and without one with go-redis. The command is installed in that version too.
func TestStrangersPrograms(t *testing.T) {
	env.Long(t)
	t.Parallel()
	proxy := t.TempDir()
	for _, suffix := range published {
		publish(t, proxy, suffix)
	}
	for name, stranger := range map[string]struct {
		program  string
		get      []string
		generate []string
	}{
		"rueidis": {withBindings, []string{module + "/rlock@" + version, "github.com/redis/rueidis"}, nil},
		"go-redis": {withGoRedis, []string{module + "/redislua/goredis@" + version, "github.com/redis/go-redis/v9"},
			[]string{"-client", "goredis"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			environment := strangersEnv(t, proxy, t.TempDir())
			write(t, filepath.Join(dir, "go.mod"), "module example.test/stranger\n\ngo 1.25.0\n")
			write(t, filepath.Join(dir, "main.go"), stranger.program)
			write(t, filepath.Join(dir, "lua", "count.lua"), script)
			goCommand(t, dir, environment, append([]string{"get"}, stranger.get...)...)
			goCommand(t, dir, environment, "get", "-tool", module+"/generator/redislua@"+version)
			goCommand(t, dir, environment,
				append([]string{"tool", "redislua", "-scripts", "lua", "-out", "bindings"}, stranger.generate...)...)

			server := env.Start(t)
			require.Equal(t, "job 2\n", goCommand(t, dir, environment, "run", ".", server.Addr()))
			require.Equal(t, "job 4\n", goCommand(t, dir, environment, "run", ".", server.Addr()))
		})
	}
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		environment := append(strangersEnv(t, proxy, t.TempDir()), "GOBIN="+dir)
		goCommand(t, dir, environment, "install", module+"/rlock/cmd/rlock@"+version)
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "rlock"), "--version").Output()
		require.NoError(t, err)
		require.Regexp(t, "^rlock "+regexp.QuoteMeta(version)+" ", string(out))
	})
}
