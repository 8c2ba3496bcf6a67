package wire_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// extension is one of keys that are one part and have the token "token".
func extension(keys ...string) wire.Extension {
	return wire.Extension{Parts: [][]string{keys}, Token: "token", TTL: time.Hour}
}

func ttl(t *testing.T, client rueidis.Client, key string) time.Duration {
	t.Helper()
	ms, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).ToInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

func set(t *testing.T, client rueidis.Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.NoError(t, client.Do(t.Context(),
			client.B().Set().Key(key).Value("token").Ex(time.Minute).Build()).Error())
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	_, client, server := start(t)
	set(t, client, "a", "b", "c", "eternal", "renamed")
	eternal, renamed := extension("eternal"), extension("renamed")
	eternal.TTL = clock.NoExpiry
	renamed.Token, renamed.Former = "new", []string{"old", "token"}
	answers := extend(t.Context(), t, server, []wire.Extension{
		extension("mine"),
		extension("a", "others"),
		{Parts: [][]string{{"b"}, {"c", "gone"}}, Token: "token", TTL: time.Hour},
		eternal,
		renamed,
	})
	require.Equal(t, []wire.Extended{{}, {Lost: "others"}, {Lost: "gone"}, {}, {}}, answers)
	require.Greater(t, ttl(t, client, "mine"), 55*time.Minute)
	require.LessOrEqual(t, ttl(t, client, "a"), time.Minute, "of a part all keys or none")
	require.Greater(t, ttl(t, client, "b"), 55*time.Minute, "each part by itself")
	require.LessOrEqual(t, ttl(t, client, "c"), time.Minute)
	require.Equal(t, -time.Millisecond, ttl(t, client, "eternal"))
	require.Equal(t, "new", owner(t, client, "renamed"))

	require.Equal(t, []wire.Extended{{Lost: "others"}},
		extend(t.Context(), t, server, []wire.Extension{extension("others")}))
	require.Empty(t, extend(t.Context(), t, server, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers = extend(ctx, t, server, []wire.Extension{extension("mine"), extension("a")})
	for _, answer := range answers {
		require.ErrorIs(t, answer.Err, context.Canceled)
	}
}

// What one slot has refused is not refused as a whole, even if its error shows the token.
func TestExtendInSomeSlots(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	set(t, client, "a", "b")
	const refusal = "NOPERM proxy refuses EVALSHA "
	for _, secret := range []string{"token", "long-former-token"} {
		e := wire.Extension{Parts: [][]string{{"a"}, {"b"}}, Token: "token", Former: []string{"long-former-token"},
			TTL: time.Hour}
		embedded.FailNext(rlocktest.Script(gen.AttachSHA1), refusal+secret)
		answers := extend(t.Context(), t, server, []wire.Extension{e})
		require.ErrorContains(t, answers[0].Err, "for some of the keys: NOPERM")
		require.NotContains(t, answers[0].Err.Error(), secret)
		require.Equal(t, wire.Indeterminate, wire.OutcomeOf(answers[0].Err))
		require.Greater(t, ttl(t, client, "b"), 55*time.Minute)

		e.Parts = e.Parts[:1]
		embedded.FailNext(rlocktest.Script(gen.AttachSHA1), refusal+secret)
		answers = extend(t.Context(), t, server, []wire.Extension{e})
		require.NotContains(t, answers[0].Err.Error(), secret)
		require.Equal(t, wire.Refused, wire.OutcomeOf(answers[0].Err))
	}
}

// extend collects what Extend answers, and checks that it answers each once.
func extend(ctx context.Context, t *testing.T, server *wire.Server, list []wire.Extension) []wire.Extended {
	t.Helper()
	var mu sync.Mutex
	all, empty := make([][]wire.Extended, len(list)), false
	server.Extend(ctx, list, func(positions []int, answers []wire.Extended) {
		mu.Lock()
		defer mu.Unlock()
		empty = empty || len(positions) == 0
		for i, position := range positions {
			all[position] = append(all[position], answers[i])
		}
	})
	require.False(t, empty, "a call is about nothing")
	answers := make([]wire.Extended, len(list))
	for i := range all {
		require.Len(t, all[i], 1, i)
		answers[i] = all[i][0]
	}
	return answers
}

// spy is a client that counts scripts and pipelines. A pipeline in which a script is about the
// key silent ends with its context. A script that is about the key refused gets an error.
type spy struct {
	rueidis.Client
	mode            rueidis.ClientMode
	silent, refused string
	instead         []string // the command that the server gets in place of one about the key refused

	mu        sync.Mutex
	scripts   map[string]int // by SHA1
	pipelines int
}

func (s *spy) Mode() rueidis.ClientMode { return s.mode }

func (s *spy) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return s.DoMulti(ctx, command)[0]
}

func (s *spy) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	s.mu.Lock()
	s.pipelines++
	s.mu.Unlock()
	about := func(words []string, key string) bool { return key != "" && slices.Contains(words, key) }
	var silent bool
	for i, command := range commands {
		words := command.Commands()
		s.mu.Lock()
		s.scripts[words[1]]++
		s.mu.Unlock()
		silent = silent || about(words, s.silent)
		if about(words, s.refused) {
			commands[i] = s.Client.B().Arbitrary(s.instead...).Build()
		}
	}
	if silent {
		<-ctx.Done()
	}
	return s.Client.DoMulti(ctx, commands...)
}

func spyOn(t *testing.T, mode rueidis.ClientMode) (*spy, *wire.Server) {
	t.Helper()
	_, client, _ := start(t)
	s := &spy{Client: client, mode: mode, scripts: map[string]int{}, instead: []string{"GET", "too", "many"}}
	scripts := gen.New(redislua.WithoutRetry())
	server := wire.NewServer(s, scripts, "process")
	extend(t.Context(), t, server, []wire.Extension{extension("gone")})
	_, err := scripts.Attach(
		t.Context(), client, gen.AttachParams{Keys: []string{"gone"}, Token: "token", TTL: time.Hour},
	)
	require.NoError(t, err)
	clear(s.scripts)
	return s, server
}

// many returns n extensions in slots of that number, whose keys are all held.
func many(t *testing.T, client rueidis.Client, n, slots int) []wire.Extension {
	t.Helper()
	list := make([]wire.Extension, n)
	for i := range list {
		key := fmt.Sprintf("{%d}:%d", i%slots, i)
		set(t, client, key)
		list[i] = extension(key)
	}
	return list
}

// Alike extensions share scripts, the others have one each.
func TestExtendTogether(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode            rueidis.ClientMode
		scripts, single int
		pipelines       int
	}{
		"one server": {rueidis.ClientModeStandalone, 3 + 1, 4, 3},
		"cluster":    {rueidis.ClientModeCluster, 4 + 1, 4, 4 + 1 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := spyOn(t, test.mode)
			list := many(t, client, 2*wire.Batch+50, 4)
			list[7].Token = "another token"
			other := extension("{0}:other")
			other.TTL = time.Hour / 2
			set(t, client, other.Parts[0]...)
			eternal := extension("eternal")
			eternal.TTL = clock.NoExpiry
			shorter := extension("shorter")
			shorter.Token, shorter.Former = "new", []string{"token"}
			set(t, client, "eternal", "shorter", "{1}:a", "{1}:b", "split")
			list = append(list, other, eternal, shorter, extension("{1}:a", "{1}:b"),
				wire.Extension{Parts: [][]string{{"split"}, {"gone"}}, Token: "token", TTL: time.Hour})

			client.pipelines = 0
			answers := extend(t.Context(), t, server, list)
			pipelines := client.pipelines
			for i, answer := range answers {
				want := wire.Extended{}
				switch i {
				case 7:
					want.Lost = list[7].Parts[0][0]
				case len(list) - 1:
					want.Lost = "gone"
				}
				require.Equal(t, want, answer, i)
			}
			require.Greater(t, ttl(t, client, "{3}:3"), 55*time.Minute)
			require.LessOrEqual(t, ttl(t, client, "{3}:7"), time.Minute)
			require.InDelta(t, 30*time.Minute, ttl(t, client, "{0}:other"), float64(5*time.Minute))
			require.Equal(t, -time.Millisecond, ttl(t, client, "eternal"))
			require.Equal(t, "new", owner(t, client, "shorter"))
			require.Equal(
				t, test.scripts+test.single, client.scripts[gen.ExtendSHA1], "one of the single ones has two parts",
			)
			require.Equal(t, 1, client.scripts[gen.AttachSHA1], "another token")
			require.Equal(t, test.pipelines, pipelines)
		})
	}
	_, server := spyOn(t, rueidis.ClientModeStandalone)
	require.Empty(t, extend(t.Context(), t, server, nil))
}

// A refused script is taken apart, so that only the lock whose key is the reason is refused.
func TestExtendTakesRefusedScriptsApart(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]rueidis.ClientMode{"one server": rueidis.ClientModeStandalone,
		"cluster": rueidis.ClientModeCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := spyOn(t, mode)
			list := many(t, client, wire.Batch+1, 1)
			client.refused = "{0}:3"
			for i, answer := range extend(t.Context(), t, server, list) {
				if i == 3 {
					require.Equal(t, wire.Refused, wire.OutcomeOf(answer.Err))
				} else {
					require.Equal(t, wire.Extended{}, answer, i)
				}
			}
			require.Equal(t, 2+wire.Batch, client.scripts[gen.ExtendSHA1])

			client.scripts[gen.ExtendSHA1] = 0
			answers := extend(t.Context(), t, server, list[3:4])
			require.Equal(t, wire.Refused, wire.OutcomeOf(answers[0].Err))
			require.Equal(t, 1, client.scripts[gen.ExtendSHA1], "one lock by itself is not asked about again")
		})
	}
}

// An answer about a lock that the script does not name is an error for all that it names: none of them is
// told that it has ended, or that it has its lease.
func TestExtendRefusesStrangeAnswers(t *testing.T) {
	t.Parallel()
	client, server := spyOn(t, rueidis.ClientModeStandalone)
	list := many(t, client, 3, 1)
	client.refused = "{0}:1"
	for _, lost := range []string{"{4}", "{-1}", "{2, 9}"} {
		client.instead = []string{"EVAL", "return " + lost, "0"}
		for i, answer := range extend(t.Context(), t, server, list) {
			require.Empty(t, answer.Lost, "%s, lock %d", lost, i)
			require.ErrorContains(t, answer.Err, "does not name", "%s, lock %d", lost, i)
		}
	}
}

// No error of a batch shows a token of any lock in it.
func TestExtendShowsNoToken(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	list := many(t, client, 3, 1)
	list[1].Token = "long-secret-token"
	refused := embedded.FailNext(
		rlocktest.Script(gen.ExtendSHA1), "NOPERM proxy refuses EVALSHA long-secret-token",
	)
	extend(t.Context(), t, server, list)
	<-refused
	embedded.FailNext(rlocktest.Script(gen.ExtendSHA1), "NOPERM proxy refuses EVALSHA long-secret-token")
	answers := extend(t.Context(), t, server, list[1:2])
	require.ErrorContains(t, answers[0].Err, "NOPERM")
	require.NotContains(t, answers[0].Err.Error(), "secret")
}

// On a cluster, a node that is silent does not keep the answers of the others back.
func TestExtendWithASilentNode(t *testing.T) {
	t.Parallel()
	client, server := spyOn(t, rueidis.ClientModeCluster)
	list := many(t, client, 8, 4)
	set(t, client, "{1}:a", "{1}:b", "{2}:a", "{2}:b")
	list = append(list, extension("{1}:a", "{1}:b"), extension("{2}:a", "{2}:b"))
	client.silent = "{1}:1"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var (
		mu      sync.Mutex
		order   []int
		answers = map[int]wire.Extended{}
	)
	server.Extend(ctx, list, func(positions []int, some []wire.Extended) {
		mu.Lock()
		defer mu.Unlock()
		for i, position := range positions {
			answers[position] = some[i]
		}
		if order = append(order, positions...); len(order) == len(list)-2 {
			cancel()
		}
	})
	require.Len(t, order, len(list))
	require.ElementsMatch(t, []int{1, 5}, order[len(list)-2:], "the others came first")
	for position, answer := range answers {
		if position == 1 || position == 5 {
			require.ErrorIs(t, answer.Err, context.Canceled)
		} else {
			require.Equal(t, wire.Extended{}, answer, position)
		}
	}
}

// What was refused in a script with others does not wait for what those do with their answers.
func TestRefusedExtensionsDoNotWait(t *testing.T) {
	t.Parallel()
	e, client, server := start(t)
	require.NoError(t, gen.New().Load(t.Context(), client))
	var list []wire.Extension
	for i := range 4 {
		key := fmt.Sprint("k", i)
		give(t, client, key, "token")
		of := time.Hour * time.Duration(1+i/2) // of two scripts
		list = append(list, wire.Extension{Parts: [][]string{{key}}, Token: "token", TTL: of})
	}
	e.FailNext(rlocktest.Script(gen.ExtendSHA1), "NOPERM no right")
	var calls atomic.Int32
	other := make(chan struct{})
	server.Extend(t.Context(), list, func([]int, []wire.Extended) {
		if calls.Add(1) > 1 {
			close(other)
			return
		}
		select {
		case <-other:
		case <-time.After(30 * time.Second):
			t.Error("it waits")
		}
	})
	require.Equal(t, int32(2), calls.Load())
}
