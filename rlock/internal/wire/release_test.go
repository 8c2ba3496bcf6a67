package wire

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

const movesText = "TRYAGAIN Multiple keys request during rehashing of slot"

func embedded(t *testing.T) (*rlocktest.Server, rueidis.Client, *Server) {
	t.Helper()
	e := rlocktest.Start(t)
	client, err := rueidis.NewClient(e.Option())
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return e, client, NewServer(client, gen.New(redislua.WithoutRetry()), "process")
}

// joins has a token stand in the queue of a key that somebody else has.
func joins(t *testing.T, client rueidis.Client, s *Server, key, token string, ttl time.Duration) *Claim {
	t.Helper()
	require.NoError(t, client.Do(t.Context(),
		client.B().Set().Key(key).Value("another token").Ex(time.Hour).Build()).Error())
	c := One(key)
	st, err := s.Queues().Ask(t.Context(), &c, Request{Token: token, TTL: ttl}, Place{})
	require.NoError(t, err)
	require.NotZero(t, st.Score)
	require.True(t, waits(t, client, key))
	return &c
}

func waits(t *testing.T, client rueidis.Client, key string) bool {
	t.Helper()
	n, err := client.Do(t.Context(), client.B().Exists().Key(slot.Queue(key)).Build()).AsInt64()
	require.NoError(t, err)
	return n > 0
}

// The reaper learns that something may be left because a slot moves, and tells that from any other refusal.
func TestReaperLearnsThatASlotMoves(t *testing.T) {
	t.Parallel()
	e, client, s := embedded(t)
	free := func(token string, keys ...string) (freed int64, err error) {
		reply := s.calls.releaseAll(t.Context(),
			[]releaseCall{{keys: keys, token: token, waits: len(keys) == 1}})[0]
		return reply.Value, reply.Err
	}
	answers := func(want int64, token string, keys ...string) {
		t.Helper()
		freed, err := free(token, keys...)
		require.NoError(t, err)
		require.Equal(t, want, freed)
	}
	moving := func(token string, keys ...string) {
		t.Helper()
		_, err := free(token, keys...)
		require.True(t, movesNow(err), "%v", err)
	}
	joins(t, client, s, "k", "waits", time.Minute)
	e.FailNext(rlocktest.Script(gen.ReleaseSHA1), movesText)
	moving("waits", "k")
	require.True(t, waits(t, client, "k"), "it cannot be given up")
	e.FailNext(rlocktest.Script(gen.ReleaseSHA1), "LOADING later")
	_, err := free("waits", "k")
	require.True(t, Transient(err) && !movesNow(err), "%v", err)
	answers(0, "waits", "k")
	require.False(t, waits(t, client, "k"))

	e.FailNext(rlocktest.Script(gen.ReleaseSHA1), movesText)
	answers(1, "another token", "k") // what has the key needs no queue to free it
	e.FailNext(rlocktest.Script(gen.ReleaseManySHA1), movesText)
	answers(0, "set", "a", "b") // a set has no place
	e.FailNext(rlocktest.Script(gen.ReleaseManySHA1), movesText)
	e.FailNext(rlocktest.Script(gen.ReleaseManySHA1), movesText)
	moving("set", "a", "b")
	e.FailNext(rlocktest.Script(gen.ReleaseSHA1), movesText)
	moving(Share{2, 1}.NewToken(""), "k")
}

// A place is given up also when the lease that it asked for would long be over: it does not end with that.
func TestPlaceOfAShortLeaseIsGivenUp(t *testing.T) {
	t.Parallel()
	const ttl = 50 * time.Millisecond
	for name, way := range map[string]struct {
		leave func(s *Server, c *Claim)
		calls int // of one try
	}{
		"its answer came": {func(s *Server, c *Claim) { s.Queues().Discard(c, "waits") }, 1},
		"its answer was lost": {func(s *Server, c *Claim) {
			c.UnsettlePlace("k", "waits")
			s.Abandon(c, []string{"waits"}, ttl)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, client, s := embedded(t)
			c := joins(t, client, s, "k", "waits", ttl)
			for range 3 * way.calls { // the third try is after 125 ms
				e.FailNext(rlocktest.Releases, "LOADING later")
			}
			way.leave(s, c)
			require.Eventually(t, func() bool { return !waits(t, client, "k") }, 20*time.Second, time.Millisecond,
				"the place stays")
		})
	}
}
