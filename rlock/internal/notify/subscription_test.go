package notify_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

const channel = "rlock:grant:{1}:p"

// listener is Grants of a client, and what they have reported.
type listener struct {
	*notify.Grants
	*strays
}

func newListener(t *testing.T, client rueidis.Client) listener {
	t.Helper()
	s := &strays{}
	g := notify.NewGrants(t.Context(), client, named(channel), s.add)
	t.Cleanup(g.Close)
	return listener{g, s}
}

// listening returns a listener that the server tells.
func listening(t *testing.T, client rueidis.Client) listener {
	t.Helper()
	l := newListener(t, client)
	require.NoError(t, l.Listen(t.Context()))
	require.True(t, l.Listening())
	return l
}

// subscribers is how many connections of a server listen on the channel.
func subscribers(t *testing.T, server *env.Server) int {
	t.Helper()
	reply := server.Do(t, "PUBSUB", "SHARDNUMSUB", channel)
	counts, err := reply.ToArray()
	require.NoError(t, err)
	n, err := counts[1].ToInt64()
	require.NoError(t, err)
	return int(n)
}

// connections is how many of a server's connections have subscriptions.
func connections(t *testing.T, server *env.Server) int {
	t.Helper()
	reply := server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub")
	list, err := reply.ToString()
	require.NoError(t, err)
	return strings.Count(list, "\n")
}

// listens is the address of a client that listens, by its server; empty: none does.
func listens(t *testing.T, server *env.Server) string {
	t.Helper()
	reply := server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub")
	list, err := reply.ToString()
	require.NoError(t, err)
	_, address, _ := strings.Cut(list, " addr=")
	address, _, _ = strings.Cut(address, " ")
	return address
}

// say publishes a message.
func say(t *testing.T, server *env.Server, message string) {
	t.Helper()
	server.Do(t, "SPUBLISH", channel, message)
}

// takes waits for a grant of a token.
func takes(t *testing.T, e *notify.Expected, want notify.Grant) {
	t.Helper()
	for {
		select {
		case <-e.Wake():
		case <-time.After(10 * time.Second):
			require.FailNow(t, "no grant has come")
		}
		if got, ok := e.Take(); ok {
			require.Equal(t, want, got)
			return
		}
	}
}

// listensAgain waits until an expected token is told that the process listens again.
func listensAgain(t *testing.T, l listener, e *notify.Expected) {
	t.Helper()
	select {
	case <-e.Wake():
	case <-time.After(30 * time.Second):
		require.FailNow(t, "it does not listen again")
	}
	_, granted := e.Take()
	require.False(t, granted)
	require.True(t, l.Listening())
	require.NoError(t, l.Listen(t.Context()))
}

// each runs a test on each engine.
func each(t *testing.T, test func(t *testing.T, server *env.Server)) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		test(t, e.Start(t))
	})
}

// What a server says is heard, with every kind of client.
func TestListen(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*rueidis.ClientOption){
		"RESP3":              func(*rueidis.ClientOption) {},
		"RESP2":              func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true },
		"without a cache":    func(o *rueidis.ClientOption) { o.DisableCache = true },
		"without pipelining": func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
		"one connection":     func(o *rueidis.ClientOption) { o.BlockingPoolSize, o.PipelineMultiplex = 1, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, server *env.Server) {
				l := newListener(t, server.Client(t, option))
				require.False(t, l.Listening())
				require.Zero(t, connections(t, server), "nothing is sent before the first Listen")
				early := l.Expect("early")
				require.NoError(t, l.Listen(t.Context()))
				require.Equal(t, 1, subscribers(t, server))

				say(t, server, message("early", 7))
				takes(t, early, grant("early", 7))
				say(t, server, "garbage")
				l.Expect("stray").Abandon()
				say(t, server, message("stray", 8))
				l.is(t, grant("stray", 8))
			})
		})
	}
}

// All share one connection, which is gone after Close.
func TestListenOnOneConnection(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		l := newListener(t, server.Client(t))
		require.NoError(t, env.Together(50, func(int) error { return l.Listen(t.Context()) }))
		require.Equal(t, 1, connections(t, server))
		require.Equal(t, 1, subscribers(t, server))
		l.Close()
		l.Close()
		env.Soon(t, func() bool { return connections(t, server) == 0 }, "the connection is closed")
		require.False(t, l.Listening())
		require.ErrorIs(t, l.Listen(t.Context()), clock.ErrStopped)
	})
}

// Grants end with the background that they were made with.
func TestListenEndsWithItsBackground(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		background, cancel := context.WithCancel(t.Context())
		g := notify.NewGrants(background, server.Client(t), named(channel), func(notify.Grant) {})
		require.NoError(t, g.Listen(t.Context()))
		cancel()
		env.Soon(t, func() bool { return !g.Listening() && connections(t, server) == 0 },
			"the connection is closed")
		require.ErrorIs(t, g.Listen(t.Context()), clock.ErrStopped)
		g.Close()
	})
}

// A connection that breaks is replaced, and whoever expects a grant is told that one may be lost.
func TestListenAfterABreak(t *testing.T) {
	for name, breaks := range map[string]func(t *testing.T, server *env.Server){
		"the connection is killed": func(t *testing.T, server *env.Server) {
			server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
		"the output buffer overflows": func(t *testing.T, server *env.Server) {
			server.Do(t, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0")
			say(t, server, strings.Repeat("x", 2<<20))
		},
		"the server restarts": func(t *testing.T, server *env.Server) {
			server.Kill()
			server.Restart(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, server *env.Server) {
				l := listening(t, server.Client(t))
				e := l.Expect("t")
				before := listens(t, server)
				breaks(t, server)
				listensAgain(t, l, e) // or it is told of the first time only now
				env.Soon(t, func() bool {
					now := listens(t, server)
					return now != "" && now != before
				}, "another connection listens")
				say(t, server, message("t", 9))
				takes(t, e, grant("t", 9))
				_, twice := e.Take()
				require.False(t, twice)
				require.Equal(t, 1, subscribers(t, server))
				env.Soon(t, func() bool { return connections(t, server) == 1 }, "the former connection is gone")
			})
		})
	}
}

// While the server is away Listen fails at once, and it listens again by itself.
func TestListenWhileTheServerIsAway(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		l := listening(t, server.Client(t))
		e := l.Expect("t")
		server.Kill()
		env.Soon(t, func() bool { return l.Listen(t.Context()) != nil }, "the break is noticed")
		require.False(t, l.Listening())
		began := time.Now()
		for range 100 {
			err := l.Listen(t.Context()) // the connection is refused, or still being reset
			require.ErrorContains(t, err, "rlock: cannot subscribe to "+channel+": ")
			require.NotContains(t, err.Error(), "right", "the server has refused nothing")
		}
		require.Less(t, time.Since(began), time.Second, "nobody waits for a second attempt")
		server.Restart(t)
		listensAgain(t, l, e)
	})
}

// A server that closes the connection each time is not asked without a pause.
func TestListenPausesBetweenBreaks(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		l := listening(t, server.Client(t))
		before := received(t, server)
		for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
			server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		require.Less(t, received(t, server)-before, int64(20))
		// the last kill may have hit an attempt
		env.Soon(t, func() bool { return l.Listen(t.Context()) == nil }, "it listens again")
	})
}

// received is how often a server was asked to subscribe.
func received(t *testing.T, server *env.Server) int64 {
	t.Helper()
	return server.CommandStats(t)["ssubscribe"]
}

// A user without the right learns which one it needs, and listens when it has it.
func TestListenWithoutTheRight(t *testing.T) {
	for _, denied := range []string{"-ssubscribe", "resetchannels"} {
		t.Run(denied, func(t *testing.T) {
			each(t, func(t *testing.T, server *env.Server) {
				rights := []string{"ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all"}
				server.Do(t, append(rights, denied)...)
				l := newListener(t, server.Client(t,
					func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "secret" }))
				for range 2000 {
					err := l.Listen(t.Context())
					require.ErrorContains(t, err, "NOPERM")
					require.ErrorContains(t, err, "the rights +ssubscribe and &"+channel)
					refused := new(rueidis.RedisError)
					require.ErrorAs(t, err, &refused)
				}
				require.Less(t, received(t, server), int64(20), "a refusal is remembered for a while")
				require.False(t, l.Listening())
				server.Do(t, rights...)
				env.Soon(t, func() bool { return l.Listen(t.Context()) == nil }, "it has the right")

				// The server closes the connection of a user who loses the right.
				server.Do(t, "ACL", "SETUSER", "u", "resetchannels")
				env.Soon(t, func() bool { return !l.Listening() && l.Listen(t.Context()) != nil },
					"it has lost the right")
				require.ErrorContains(t, l.Listen(t.Context()), "NOPERM")
			})
		})
	}
}

// A server of the time before sharded channels does not know the command.
func TestListenOnAServerWithoutShardedChannels(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client, err := rueidis.NewClient(
		rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	l := newListener(t, client)
	err = l.Listen(t.Context())
	require.ErrorContains(t, err, "unknown command")
	require.ErrorContains(t, err, "Redis 7")
}

// The embedded server tells processes too, and while it is away nothing is tried without a pause.
func TestListenInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		client, err := server.Client()
		require.NoError(t, err)
		t.Cleanup(client.Close)
		l := listening(t, client)
		e := l.Expect("t")
		require.NoError(t, env.Do(t, client, "SPUBLISH", channel, message("t", 3)).Error())
		takes(t, e, grant("t", 3))

		server.Stop()
		synctest.Wait()
		require.False(t, l.Listening())
		time.Sleep(10 * time.Minute)
		require.ErrorContains(t, l.Listen(t.Context()), "refused")
		require.False(t, woken(e))
		require.NoError(t, server.Restart(rlocktest.LoseData))
		before := time.Now()
		listensAgain(t, l, e)
		require.LessOrEqual(t, time.Since(before), longestRest)
	})
}

const longestRest = time.Second

// A context ends a Listen, and not the attempt of the others.
func TestListenWithAContext(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		l := newListener(t, server.Client(t))
		server.Stop()
		reason := fmt.Errorf("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		other := make(chan error, 1)
		go func() { other <- l.Listen(t.Context()) }()
		time.AfterFunc(50*time.Millisecond, func() { cancel(reason) })
		err := l.Listen(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, reason)
		require.ErrorIs(t, l.Listen(ctx), context.Canceled)
		server.Cont()
		require.NoError(t, <-other)
		require.NoError(t, l.Listen(ctx), "it listens already")
	})
}

// Close ends what waits, and leaves nothing behind.
func TestCloseWhileListening(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		for name, after := range map[string]time.Duration{"at once": 0, "while it dials": 30 * time.Millisecond} {
			l := newListener(t, server.Client(t))
			server.Stop()
			failed := make(chan error, 1)
			go func() { failed <- l.Listen(t.Context()) }()
			time.Sleep(after)
			began := time.Now()
			l.Close()
			require.Less(t, time.Since(began), 5*time.Second, name)
			require.ErrorIs(t, <-failed, clock.ErrStopped, name)
			server.Cont()
			env.Soon(t, func() bool { return connections(t, server) == 0 }, name)
		}
	})
}

// A stopped server, of which the client knows nothing yet, does not keep Close waiting.
func TestCloseOnAServerThatStandsStill(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		l := listening(t, server.Client(t))
		server.Stop()
		defer server.Cont()
		began := time.Now()
		l.Close()
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// held is a client whose dedicated connections do not close before end is closed.
type held struct {
	rueidis.Client
	end chan struct{}
}

func (h held) Dedicate() (rueidis.DedicatedClient, func()) {
	dedicated, release := h.Client.Dedicate()
	return heldConnection{dedicated, h.end}, release
}

type heldConnection struct {
	rueidis.DedicatedClient
	end chan struct{}
}

func (h heldConnection) Close() {
	<-h.end
	h.DedicatedClient.Close()
}

// Close of a connection of rueidis may never return, if a command of its own begins in that moment.
func TestCloseDoesNotWaitForAConnectionForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, err := rlocktest.StartInMemory(t).Client()
		require.NoError(t, err)
		t.Cleanup(client.Close)
		end := make(chan struct{})
		t.Cleanup(func() { close(end) })
		l := listening(t, held{client, end})
		began := time.Now()
		l.Close()
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		require.ErrorIs(t, l.Listen(t.Context()), clock.ErrStopped)
	})
}

// A pool that is used up makes callers wait as long as they like, and one goroutine.
func TestListenWhenThePoolIsUsedUp(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		client := server.Client(t, func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
		taken, release := client.Dedicate()
		require.NoError(t, taken.Do(t.Context(), taken.B().Ping().Build()).Error())
		l := newListener(t, client)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Listen(ctx), context.DeadlineExceeded)
		release()
		require.NoError(t, l.Listen(t.Context()))
	})
}

// A closed client is not asked again and again.
func TestListenWithAClosedClient(t *testing.T) {
	each(t, func(t *testing.T, server *env.Server) {
		client := server.Client(t)
		client.Close()
		l := newListener(t, client)
		require.ErrorIs(t, l.Listen(t.Context()), rueidis.ErrClosing)
	})
}

// After a failover it listens to the new primary, even if the former one stands still and
// keeps its connections.
func TestListenAfterAFailover(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *env.Sentinel){
		"the primary dies": func(t *testing.T, s *env.Sentinel) { s.Failover(t) },
		"the primary is demoted": func(t *testing.T, s *env.Sentinel) {
			s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", "env")
		},
		"the primary stands still": func(t *testing.T, s *env.Sentinel) {
			for _, sentinel := range s.Sentinels {
				sentinel.Do(t, "SENTINEL", "SET", "env", "down-after-milliseconds", "500")
			}
			s.Primary.Stop()
			t.Cleanup(s.Primary.Cont)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				s := e.StartSentinel(t)
				// Without this the client finds after eleven seconds that nobody answers.
				l := listening(t, s.Client(t, func(o *rueidis.ClientOption) { o.Dialer.KeepAlive = time.Hour }))
				require.Equal(t, 1, subscribers(t, s.Primary))
				promoted := s.Replica.Client(t)
				token := l.Expect("t")
				lose(t, s)
				listensAgain(t, l, token)
				env.Soon(t, func() bool { // a sentinel closes the connections of whom it promotes
					counts, err := env.Do(t, promoted, "PUBSUB", "SHARDNUMSUB", channel).AsIntMap()
					return err == nil && counts[channel] == 1
				}, "it listens to the new primary")
				require.NoError(t, env.Do(t, promoted, "SPUBLISH", channel, message("t", 5)).Error())
				takes(t, token, grant("t", 5))
			})
		})
	}
}
