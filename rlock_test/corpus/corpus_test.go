// Package corpus_test runs every script of the corpus through its generated
// wrapper, against real servers.
package corpus_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// target is what a scenario works with: the scripts, a client, and keys of its own.
type target struct {
	*bindings.Scripts
	client rueidis.Client
	tag    string
	caches bool // the client has a client-side cache
}

// key returns a key that no other scenario has. All keys of a scenario are in one
// slot, as scripts need it on a cluster.
func (e target) key(name string) string { return "{" + e.tag + "}:" + name }

func (e target) keys(names ...string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = e.key(name)
	}
	return keys
}

// do runs one command about a key.
func (e target) do(t *testing.T, verb, key string, args ...string) rueidis.RedisResult {
	t.Helper()
	return e.client.Do(t.Context(), e.client.B().Arbitrary(verb).Keys(key).Args(args...).Build())
}

func (e target) set(t *testing.T, verb, key string, args ...string) {
	t.Helper()
	require.NoError(t, e.do(t, verb, key, args...).Error())
}

func (e target) text(t *testing.T, verb, key string, args ...string) string {
	t.Helper()
	text, err := e.do(t, verb, key, args...).ToString()
	require.NoError(t, err)
	return text
}

func (e target) number(t *testing.T, verb, key string, args ...string) int64 {
	t.Helper()
	n, err := e.do(t, verb, key, args...).AsInt64()
	require.NoError(t, err)
	return n
}

// lives checks that a key expires after about the given time.
func (e target) lives(t *testing.T, key string, want time.Duration) {
	t.Helper()
	left := time.Duration(e.number(t, "PTTL", key)) * time.Millisecond
	require.InDelta(t, want, left, float64(5*time.Second))
}

// ask calls a script that must succeed, and returns its answer.
func ask[P, R any](t *testing.T, e target, call func(context.Context, rueidis.Client, P) (R, error), p P) R {
	t.Helper()
	r, err := call(t.Context(), e.client, p)
	require.NoError(t, err)
	return r
}

// tell calls a script without an answer that must succeed.
func tell[P any](t *testing.T, e target, call func(context.Context, rueidis.Client, P) error, p P) {
	t.Helper()
	require.NoError(t, call(t.Context(), e.client, p))
}

// refused calls a script that must answer with a declared error.
func refused[P, R any](t *testing.T, e target, want error,
	call func(context.Context, rueidis.Client, P) (R, error), p P) {
	t.Helper()
	r, err := call(t.Context(), e.client, p)
	require.ErrorIs(t, err, want)
	require.Zero(t, r)
}

func some[T any](v T) redislua.Null[T] { return redislua.Null[T]{V: v, Valid: true} }

func resp2(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true }

// Every script does what its header says, in both versions of the protocol and on
// a cluster.
func TestScenarios(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, engine env.Engine) {
		t.Run("resp3", func(t *testing.T) {
			t.Parallel()
			runScenarios(t, engine.Start(t).Client(t), true)
		})
		t.Run("resp2", func(t *testing.T) {
			t.Parallel()
			runScenarios(t, engine.Start(t).Client(t, resp2), false)
		})
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			runScenarios(t, engine.StartCluster(t).Client(t), true)
		})
	})
}

func runScenarios(t *testing.T, client rueidis.Client, caches bool) {
	scripts := bindings.New()
	complete := t.Run("each", func(t *testing.T) {
		for name, scenario := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(t, target{scripts, client, name, caches})
			})
		}
	})
	if complete && !filtered() {
		requireAllKnown(t, client)
	}
}

// filtered tells whether only some of the scenarios were asked for.
func filtered() bool { return strings.Count(testFlag("run"), "/") > 2 || testFlag("skip") != "" }

var scriptSum = regexp.MustCompile(`SHA1 += "([0-9a-f]{40})"`)

// requireAllKnown asks the servers which scripts they know. A server learns a
// script by running it, if nobody has loaded it.
func requireAllKnown(t *testing.T, client rueidis.Client) {
	t.Helper()
	paths, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var sums []string
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join("bindings", filepath.Base(path)+".go"))
		require.NoError(t, err)
		match := scriptSum.FindSubmatch(text)
		require.NotNil(t, match, path)
		sums = append(sums, string(match[1]))
	}

	known := make([]bool, len(sums))
	for _, node := range client.Nodes() {
		answers, err := node.Do(t.Context(), node.B().ScriptExists().Sha1(sums...).Build()).AsIntSlice()
		require.NoError(t, err)
		for i, answer := range answers {
			known[i] = known[i] || answer == 1
		}
	}
	for i, path := range paths {
		require.True(t, known[i], "no server knows %s", path)
	}
}
