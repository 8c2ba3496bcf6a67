package wire_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
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

// start returns a server, on which "mine" has the token "token" for a minute and "others" that
// of somebody else.
func start(t *testing.T) (*rlocktest.Server, rueidis.Client, *wire.Server) {
	t.Helper()
	embedded := rlocktest.Start(t)
	client, err := rueidis.NewClient(embedded.Option())
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for key, token := range map[string]string{"mine": "token", "others": "another token"} {
		require.NoError(t, client.Do(t.Context(),
			client.B().Set().Key(key).Value(token).Ex(time.Minute).Build()).Error())
	}
	return embedded, client, wire.NewServer(client, gen.New(redislua.WithoutRetry()), "process")
}

func owner(t *testing.T, client rueidis.Client, key string) string {
	t.Helper()
	token, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(t, err)
	return token
}

func claim(server *wire.Server, keys ...string) *wire.Claim {
	c := server.All(keys, false)
	return &c
}

func give(t *testing.T, client rueidis.Client, key, token string) {
	t.Helper()
	require.NoError(t, client.Do(t.Context(),
		client.B().Set().Key(key).Value(token).Ex(time.Minute).Build()).Error())
}

func TestRelease(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	for _, key := range []string{"others", "nobody's"} {
		freed, err := server.Release(t.Context(), claim(server, key), "token", nil)
		require.NoError(t, err)
		require.Equal(t, wire.Missing, freed, "of %s", key)
	}
	freed, err := server.Release(t.Context(), claim(server, "mine", "others"), "token", nil)
	require.NoError(t, err)
	require.Equal(t, wire.Missing, freed, "only one of the two")
	require.Empty(t, owner(t, client, "mine"))
	require.Equal(t, "another token", owner(t, client, "others"))

	embedded.LoseReply(rlocktest.Releases)
	freed, err = server.Release(t.Context(), claim(server, "others"), "another token", nil)
	require.NoError(t, err)
	require.Equal(t, wire.Perhaps, freed, "by the try without an answer")
	require.Empty(t, owner(t, client, "others"))

	embedded.FailNext(rlocktest.Releases, "ERR proxy refuses EVALSHA long-secret-token")
	_, err = server.Release(t.Context(), claim(server, "mine"), "long-secret-token", nil)
	require.ErrorContains(t, err, "proxy refuses")
	require.NotContains(t, err.Error(), "secret")
}

// The keys still have the present token or a former one.
func TestReleaseFormerTokens(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	for name, lose := range map[string]func(){
		"every answer": func() {},
		"a lost one":   func() { embedded.LoseReply(rlocktest.Releases) },
	} {
		for _, token := range []string{"present", "former"} {
			give(t, client, "a", token)
			give(t, client, "b", token)
			lose()
			freed, err := server.Release(t.Context(), claim(server, "a", "b"), "present", []string{"former"})
			require.NoError(t, err, name)
			require.NotEqual(t, wire.Missing, freed, name)
			require.Empty(t, owner(t, client, "a")+owner(t, client, "b"), name)
		}
	}
	give(t, client, "a", "former")
	freed, err := server.Release(t.Context(), claim(server, "a", "b"), "present", []string{"former"})
	require.NoError(t, err)
	require.Equal(t, wire.Missing, freed, "nobody has b, and every answer came")
}

// lossy is a client that loses the first command of its first pipeline.
type lossy struct {
	rueidis.Client
	done bool
}

func (c *lossy) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if c.done {
		return c.Client.DoMulti(ctx, commands...)
	}
	c.done = true
	lost := rueidis.NewErrorResult(io.ErrUnexpectedEOF)
	return append([]rueidis.RedisResult{lost}, c.Client.DoMulti(ctx, commands[1:]...)...)
}

// A release frees the keys of a set for which nobody waits, and then passes the others on. If it frees some
// of them, a try without an answer may have freed the others: nobody says that they were lost.
func TestReleaseTellsNoLossAfterALostReply(t *testing.T) {
	t.Parallel()
	_, client, _ := start(t)
	server := wire.NewServer(&lossy{Client: client}, gen.New(redislua.WithoutRetry()), "process")
	give(t, client, "a", "present")
	freed, err := server.Release(t.Context(), claim(server, "a", "b"), "present", []string{"former"})
	require.NoError(t, err)
	require.Equal(t, wire.Perhaps, freed, "nobody has b")
}

// A call after one that failed does not count a key as lost that the reaper has freed meanwhile.
func TestReleaseAgain(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	const refusal = "READONLY You can't write against a read only replica."
	c := claim(server, "mine")
	embedded.FailNext(rlocktest.Releases, refusal)
	_, err := server.Release(t.Context(), c, "token", nil)
	require.ErrorContains(t, err, "READONLY")
	require.Eventually(t, func() bool { return owner(t, client, "mine") == "" }, 10*time.Second,
		time.Millisecond, "the reaper frees it")
	freed, err := server.Release(t.Context(), c, "token", nil)
	require.NoError(t, err)
	require.Equal(t, wire.Perhaps, freed)

	chosen := claim(server, "others")
	chosen.Choose()
	embedded.FailNext(rlocktest.Releases, refusal)
	_, err = server.Release(t.Context(), chosen, "another token", nil)
	require.Error(t, err)
	server.Close(time.Second)
	require.Equal(t, "another token", owner(t, client, "others"), "another handle may hold by it")
}

func TestReleaseEach(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	mine := &wire.Freeing{Claim: claim(server, "mine"), Token: "token"}
	others := &wire.Freeing{Claim: claim(server, "others"), Token: "token", Former: []string{"another token"}}
	gone := &wire.Freeing{Claim: claim(server, "gone"), Token: "token"}
	embedded.LoseReply(rlocktest.Releases)
	server.ReleaseEach(t.Context(), []*wire.Freeing{mine, others, gone})
	for _, f := range []*wire.Freeing{mine, others, gone} {
		require.NoError(t, f.Err)
	}
	require.Equal(t, wire.Perhaps, mine.Freed)
	require.NotEqual(t, wire.Missing, others.Freed)
	require.Empty(t, owner(t, client, "mine")+owner(t, client, "others"))
}

func TestReleaseWhile(t *testing.T) {
	t.Parallel()
	_, client, server := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := server.ReleaseWhile(ctx, "mine", "token")
	require.ErrorIs(t, err, context.Canceled)
	server.Close(time.Second)
	require.Equal(t, "token", owner(t, client, "mine"), "nothing goes on in the background")
	freed, err := server.Release(ctx, claim(server, "mine"), "token", nil)
	require.NoError(t, err)
	require.Equal(t, wire.Free, freed, "whether or not ctx has ended")
	require.Empty(t, owner(t, client, "mine"))
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	request := wire.Request{Token: "new", TTL: time.Minute, Fenced: true}
	free := claim(server, "free")
	embedded.LoseReply(rlocktest.Acquires)
	a, err := server.Acquire(t.Context(), free, request)
	require.NoError(t, err)
	require.True(t, a.Acquired, "the second try knows the token")
	require.NotZero(t, a.Fence)
	require.False(t, free.Settled())
	require.Equal(t, uint64(2), server.Acquisitions())
	require.Equal(t, "new", owner(t, client, "free"))

	_, err = server.Release(t.Context(), free, "new", nil)
	require.NoError(t, err)
	give(t, client, "free", "new") // the first try arrives now
	require.Eventually(t, func() bool { return owner(t, client, "free") == "" }, 10*time.Second,
		time.Millisecond)

	request.Token = "newer" // the reaper still looks for the other one
	a, err = server.Acquire(t.Context(), claim(server, "free", "others"), request)
	require.NoError(t, err)
	require.False(t, a.Acquired)
	require.Equal(t, "others", a.Held)
	require.InDelta(t, time.Minute, a.Left, float64(20*time.Second))
	require.Empty(t, owner(t, client, "free"), "all or none")
	request.Keep = []string{"free", "others"}
	_, err = server.Acquire(t.Context(), claim(server, "others", "free"), request)
	require.NoError(t, err)
	require.Equal(t, "newer", owner(t, client, "free"), "it keeps what it gets")
}

func TestAttach(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	a, err := server.Attach(t.Context(), claim(server, "mine", "others"), "new",
		wire.NewHandoff([]string{"mine", "others"}, []string{"token"}, 0), time.Minute)
	require.NoError(t, err)
	require.True(t, a.Lost)
	require.Equal(t, "others", a.Key)
	require.Equal(t, "token", owner(t, client, "mine"), "nothing has changed")

	embedded.LoseReply(rlocktest.Script(gen.AttachSHA1))
	before := clock.Now()
	a, err = server.Attach(t.Context(), claim(server, "mine"), "new",
		wire.NewHandoff([]string{"mine"}, []string{"token"}, 0), time.Minute)
	require.NoError(t, err)
	require.False(t, a.Lost, "the second try knows the new token")
	require.InDelta(t, time.Minute, a.Remaining, float64(20*time.Second))
	require.Greater(t, a.End, clock.LeaseEnd(before, a.Remaining), "it counts from the try that was answered")
	require.Equal(t, "new", owner(t, client, "mine"))

	require.NoError(t, client.Do(t.Context(), client.B().Persist().Key("mine").Build()).Error())
	a, err = server.Attach(t.Context(), claim(server, "mine"), "newer",
		wire.NewHandoff([]string{"mine"}, []string{"new"}, 0), time.Minute)
	require.NoError(t, err)
	require.Equal(t, clock.NoExpiry, a.Remaining)
	require.Equal(t, clock.Never, a.End)
}

// ofCluster is a client that seems to be one of a cluster.
type ofCluster struct{ rueidis.Client }

func (ofCluster) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// A key of a set that can never be freed does not keep the reaper from the keys in other slots.
func TestReleaseOfASetWithAKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	embedded, client, _ := start(t)
	server := wire.NewServer(ofCluster{client}, gen.New(redislua.WithoutRetry()), "process")
	keys := []string{"a", "b"}
	if redislua.Slot("a") > redislua.Slot("b") {
		slices.Reverse(keys)
	}
	embedded.FailNext(rlocktest.Key(keys[0]),
		"WRONGTYPE Operation against a key holding the wrong kind of value")
	give(t, client, keys[1], "token")
	c := server.All(keys, true)
	embedded.FailNext(rlocktest.Key(keys[1]), "READONLY You can't write against a read only replica.")
	_, err := server.Release(t.Context(), &c, "token", nil)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Eventually(t, func() bool { return owner(t, client, keys[1]) == "" }, 10*time.Second,
		time.Millisecond)
}

// Ask tells and reserves what a hand-over would, and leaves the key as it is, also if it arrives late.
func TestAsk(t *testing.T) {
	t.Parallel()
	_, client, server := start(t)
	for _, ttl := range []time.Duration{time.Minute, clock.NoExpiry} {
		if ttl == clock.NoExpiry {
			require.NoError(t, client.Do(t.Context(), client.B().Persist().Key("mine").Build()).Error())
		}
		left, err := client.Do(t.Context(), client.B().Expiretime().Key("mine").Build()).AsInt64()
		require.NoError(t, err)
		said, err := server.AskHeld(t.Context(), "mine", "token", true, 8)
		require.NoError(t, err)
		require.True(t, said.Over)
		require.Positive(t, said.Reserved)
		require.Zero(t, said.Waits)
		again, err := server.AskHeld(t.Context(), "mine", "token", true, 8)
		require.NoError(t, err)
		require.GreaterOrEqual(t, again.Fence, said.Fence+uint64(said.Reserved))
		require.Equal(t, "token", owner(t, client, "mine"))
		same, err := client.Do(t.Context(), client.B().Expiretime().Key("mine").Build()).AsInt64()
		require.NoError(t, err)
		require.Equal(t, left, same)
	}
	unfenced, err := server.AskHeld(t.Context(), "mine", "token", false, 8)
	require.NoError(t, err)
	require.Zero(t, unfenced.Reserved)
	for _, key := range []string{"others", "nobody's"} {
		before := owner(t, client, key)
		said, err := server.AskHeld(t.Context(), key, "token", true, 8)
		require.NoError(t, err)
		require.False(t, said.Over)
		require.Zero(t, said.Reserved)
		require.Equal(t, before, owner(t, client, key))
	}
}

// ending ends the goroutine of its first call, after the server has run it.
type ending struct {
	rueidis.Client
	calls atomic.Int32
}

func (c *ending) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	result := c.Client.Do(ctx, command)
	if c.calls.Add(1) == 1 {
		runtime.Goexit()
	}
	return result
}

// An attempt whose goroutine user code has ended may have taken its key.
func TestGoexitInOneOfManyTries(t *testing.T) {
	t.Parallel()
	_, inner, _ := start(t)
	require.NoError(t, gen.New().Load(t.Context(), inner))
	s := wire.NewServer(&ending{Client: inner}, gen.New(redislua.WithoutRetry()), "p")
	s.Queues().Choose(wire.Polling)
	var tries []*wire.Try
	for i := range 2 {
		c := wire.One(fmt.Sprint("g", i))
		tries = append(tries, &wire.Try{Claim: &c, Request: wire.Request{Token: "token", TTL: time.Hour}})
	}
	s.AcquireEach(t.Context(), tries)
	ended := 0
	for _, try := range tries {
		if try.Err == nil {
			continue
		}
		ended++
		require.Equal(t, "token", owner(t, inner, try.Claim.Key()))
		require.False(t, try.Claim.Settled())
	}
	require.Equal(t, 1, ended)
}

// asCluster says that it is one.
type asCluster struct{ rueidis.Client }

func (asCluster) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// Of two who attach a set, the one that loses leaves the other the keys that have the former token still.
func TestAttachThatLosesLeavesTheOther(t *testing.T) {
	t.Parallel()
	_, inner, _ := start(t)
	s := wire.NewServer(asCluster{inner}, gen.New(redislua.WithoutRetry()), "p")
	c, former := s.All([]string{"a", "b"}, true), s.All([]string{"a", "b"}, true)
	second := c.BySlot()[1][0]
	give(t, inner, c.BySlot()[0][0], "of the other")
	give(t, inner, second, "former")
	former.Unsettle("former")
	h := s.HandoffOf(&former, []string{"former"}, 1)
	require.True(t, h.Late)
	a, err := s.Attach(t.Context(), &c, "new", h, time.Minute)
	require.NoError(t, err)
	require.True(t, a.Lost)
	s.Close(time.Minute) // a last try of what is to be freed
	require.Equal(t, "former", owner(t, inner, second))
}
