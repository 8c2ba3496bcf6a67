package env_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestDropReplyRunsTheRequest(t *testing.T) {
	s, p := start(t)
	client := s.Client(t, through(p))
	push := func() error {
		return client.Do(t.Context(), client.B().Rpush().Key("list").Element("v").Build()).Error()
	}
	require.NoError(t, push())
	p.DropReply(env.Contains("rpush", "list"))
	require.Zero(t, p.Dropped())

	require.Error(t, push())
	require.Equal(t, 1, p.Dropped())
	require.Equal(t, int64(2), number(t, s.Do(t, "LLEN", "list")))

	require.NoError(t, push())
	require.Equal(t, 1, p.Dropped())
	require.Equal(t, int64(3), number(t, s.Do(t, "LLEN", "list")))
}

func TestDropReplyRunsTheRequestBehindOthers(t *testing.T) {
	s, p := start(t)
	for i := range 20 {
		p.DropReply(env.Contains("INCR"))
		c := dial(t, p.Addr())
		c.send("PING")
		c.wantReply("+PONG")
		c.send("DEBUG SLEEP 0.005")
		c.send("INCR n")
		c.wantClosedAfterAny("+OK")
		require.Equal(t, i+1, p.Dropped())
		require.Equal(t, strconv.Itoa(i+1), text(t, s.Do(t, "GET", "n")))
	}
}

func TestDropReplyLeavesOthersAlone(t *testing.T) {
	_, p := start(t)
	other := dial(t, p.Addr())
	p.DropReply(env.Contains("SET", "first"))
	p.DropReply(env.Contains("SET", "second"))
	for _, key := range []string{"second", "first"} {
		c := dial(t, p.Addr())
		c.send("SET third v")
		c.wantReply("+OK")
		c.send("SET " + key + " v")
		c.wantClosed()
	}
	require.Equal(t, 2, p.Dropped())
	other.send("PING")
	other.wantReply("+PONG")
}

func TestHoldKeepsTheRequestUntilRelease(t *testing.T) {
	s, p := start(t)
	release := p.Hold(env.Contains("SET", "k"))
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	c.send("SET k v")
	c.send("PING")
	env.Soon(t, func() bool { return p.Held() == 1 }, "the request is held")
	other.send("PING")
	other.wantReply("+PONG")
	c.wantSilence()
	require.Zero(t, number(t, s.Do(t, "EXISTS", "k")))

	release()
	c.wantReply("+OK")
	c.wantReply("+PONG")
	c.send("SET k w")
	c.wantReply("+OK")
	require.Equal(t, 1, p.Held())
	release()
}

func TestHoldDeliversAfterItsClientGaveUp(t *testing.T) {
	s, p := start(t)
	release := p.Hold(env.Contains("SET"))
	c := dial(t, p.Addr())
	c.send("SET late v")
	env.Soon(t, func() bool { return p.Held() == 1 }, "the request is held")
	require.NoError(t, c.tcp.Close())

	release()
	env.Soon(t, func() bool { return number(t, s.Do(t, "EXISTS", "late")) == 1 }, "it arrives")
}

func TestDelayAddsLatencyAndKeepsThroughput(t *testing.T) {
	const (
		delay    = 200 * time.Millisecond
		requests = 50
	)
	_, p := start(t)
	c := dial(t, p.Addr())
	c.send("PING")
	c.wantReply("+PONG")

	p.Delay(delay)
	begin := time.Now()
	for range requests {
		c.send("INCR n")
		time.Sleep(time.Millisecond)
	}
	for i := range requests {
		c.wantReply(":" + strconv.Itoa(i+1))
	}
	require.GreaterOrEqual(t, time.Since(begin), 2*delay)
	require.Less(t, time.Since(begin), requests*delay/2)
}

func TestDelayKeepsOrderWhenItShrinks(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	c.send("SET n 10")
	c.wantReply("+OK")

	p.Delay(10 * quiet)
	c.send("INCR n")
	c.wantSilence()
	p.Delay(0)
	c.send("DECR n")
	c.wantReply(":11")
	c.wantReply(":10")
}

func TestBlackHoleSwallowsRequests(t *testing.T) {
	s, p := start(t)
	victim, idle := dial(t, p.Addr()), dial(t, p.Addr())
	for _, c := range []*conn{victim, idle} {
		c.send("PING")
		c.wantReply("+PONG")
	}

	p.BlackHole(true)
	victim.send("SET k v")
	victim.wantSilence()
	fresh := dial(t, p.Addr())
	fresh.send("PING")
	fresh.wantSilence()
	require.Zero(t, number(t, s.Do(t, "EXISTS", "k")))

	p.BlackHole(false)
	victim.wantClosed()
	fresh.wantClosed()
	idle.send("PING")
	idle.wantReply("+PONG")
}

func TestBlackHoleSwallowsReplies(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	c.send("BLPOP list 0")
	env.Soon(t, func() bool {
		return strings.Contains(text(t, s.Do(t, "INFO", "clients")), "blocked_clients:1")
	}, "the command waits")

	p.BlackHole(true)
	s.Do(t, "RPUSH", "list", "v")
	c.wantSilence()
	require.Zero(t, number(t, s.Do(t, "LLEN", "list")))
	p.BlackHole(false)
	c.wantClosed()
}

func TestBlackHoleHidesTheDeathOfTheServer(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	c.send("PING")
	c.wantReply("+PONG")
	p.BlackHole(true)
	s.Kill()
	c.wantSilence()
	p.BlackHole(false)
	c.wantClosed()
}

func TestForgetSwallowsWhatThereIs(t *testing.T) {
	s, p := start(t)
	victim := dial(t, p.Addr())
	victim.send("PING")
	victim.wantReply("+PONG")
	p.Forget()
	victim.send("SET k v")
	victim.wantSilence()
	fresh := dial(t, p.Addr())
	fresh.send("PING")
	fresh.wantReply("+PONG")
	require.Zero(t, number(t, s.Do(t, "EXISTS", "k")))
}

func TestCutClosesConnections(t *testing.T) {
	s, p := start(t)
	release := p.Hold(env.Contains("SET"))
	first, second := dial(t, p.Addr()), dial(t, p.Addr())
	for _, c := range []*conn{first, second} {
		c.send("PING")
		c.wantReply("+PONG")
	}
	second.send("SET k v")
	env.Soon(t, func() bool { return p.Held() == 1 }, "the request is held")

	p.Cut()
	first.wantClosed()
	second.wantClosed()
	release()
	third := dial(t, p.Addr())
	third.send("PING")
	third.wantReply("+PONG")
	require.Zero(t, number(t, s.Do(t, "EXISTS", "k")))
}
