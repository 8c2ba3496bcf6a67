//go:build unix

package crowds

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Whatever a dead process gets for its whole lease costs the others a minute, which no busy machine takes for
// what costs two seconds. The leases of those who live do not end. What costs one time of waiting costs two
// seconds and a half, and less than once on a busy machine too. That does not tell one time from three on a
// quiet one. TestQueueScripts does: it says who is asked, and how soon somebody looks again.
const (
	deadTTL = time.Minute
	enough  = 25 * time.Second
	once    = 10 * time.Second
)

// processes die together. Each has some Lockers, each of which counts as a process. So they cost more than
// enough if each costs two seconds of its own. Those far back need not be heard of for half a minute: if they
// were not asked together with the first, they would cost that, and who lives behind them sends a heartbeat
// each 15 seconds if it is not asked. Where who lives must look by itself, there are few, because that is
// seldom behind many.
const (
	processes = 3
	few       = 8
	lockers   = 60
)

// scene is what somebody has, what processes that die wait for, and what somebody who lives wants behind
// them. The two cannot have it together.
type scene struct {
	name             string
	has, dead, alive want
	stays            bool // who has it keeps it: who lives could have its part, if nobody was before it
}

var scenes = []scene{
	{name: "the whole lock"},
	{name: "readers before a writer", dead: want{Permits: 1}},
	{name: "permits", has: of(2, 2), dead: of(2, 2), alive: of(2, 2)},
	{name: "a writer among readers", has: want{Permits: 1}, alive: want{Permits: 1}, stays: true},
	{name: "a large request among small ones", has: of(1, 8), dead: of(8, 8), alive: of(1, 8), stays: true},
}

func of(permits, limit int) want { return want{Permits: permits, Limit: limit} }

// play is a scene at a key.
type play struct {
	scene
	held, got *rlock.Lock // by who has it, and by who lives
	arrives   chan *rlock.Lock
	within    time.Duration // of it, who lives has the lock
	began     time.Time     // when who lives could have had it, if nobody was dead
	came      time.Time     // when it had it
}

// stage is where some scenes are played.
type stage struct {
	server  *env.Server
	holds   *rlock.Locker
	lives   *rlock.Locker
	plays   []*play
	waiting []*env.Program
}

// newStage has the locks of the scenes taken, each under its name, for as many plays as there are suffixes.
func newStage(t *testing.T, e env.Engine, scenes []scene, suffixes ...string) *stage {
	t.Helper()
	server := e.Start(t)
	s := &stage{server: server, holds: env.OpenOn(t, server), lives: env.OpenOn(t, server)}
	for _, sc := range scenes {
		for _, suffix := range suffixes {
			p := &play{scene: sc, arrives: make(chan *rlock.Lock, 1), within: enough}
			p.name += suffix
			for _, w := range []*want{&p.has, &p.dead, &p.alive} {
				w.Key, w.TTL, w.Places = p.name, rlock.NoExpiry, 1
			}
			p.dead.TTL = deadTTL
			p.held = env.MustLock(t)(p.has.acquire(t.Context(), s.holds))
			s.plays = append(s.plays, p)
		}
	}
	return s
}

// begin starts a process that waits at an address.
func (s *stage) begin(t *testing.T, address string, wants ...want) *env.Program {
	t.Helper()
	p := env.Reexec(t, waiter+"=redis://"+address)
	text, err := json.Marshal(wants)
	require.NoError(t, err)
	p.Send(string(text))
	s.waiting = append(s.waiting, p)
	return p
}

// queue returns how many stand in the queue of a play.
func (s *stage) queue(t *testing.T, p *play) int {
	t.Helper()
	return len(env.Inspect(t, s.holds, p.name).Waiters)
}

// awaitDead returns when all places of the processes that are to die are in the queues. A busy machine needs
// long for so many.
func (s *stage) awaitDead(t *testing.T) {
	t.Helper()
	for _, p := range s.plays {
		all := func() bool { return s.queue(t, p) == p.dead.Places }
		require.Eventually(t, all, time.Minute, 20*time.Millisecond, "all wait for "+p.name)
	}
}

// join has those who live wait behind. On a machine that is so busy that a process says nothing for two
// seconds, one may not have to wait.
func (s *stage) join(t *testing.T) {
	t.Helper()
	for _, p := range s.plays {
		go func() {
			lock, err := p.alive.acquire(t.Context(), s.lives)
			if err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
			p.came = time.Now()
			p.arrives <- lock
		}()
	}
	for _, p := range s.plays {
		joined := func() bool { return s.queue(t, p) > p.dead.Places || len(p.arrives) == 1 }
		env.Soon(t, joined, "one more waits")
	}
}

// release ends the part of those who have the locks, if that is not to stay.
func (s *stage) release(t *testing.T) {
	t.Helper()
	for _, p := range s.plays {
		if !p.stays {
			p.began = time.Now()
			require.NoError(t, p.held.Release(t.Context()))
		}
	}
}

// receive has those who live get what they wait for in time.
func (s *stage) receive(t *testing.T) {
	t.Helper()
	for _, p := range s.plays {
		t.Run(p.name, func(t *testing.T) {
			p.got = env.ReceiveWithin(t, p.within, p.arrives)
			require.NotNil(t, p.got)
			t.Logf("%.1f s", p.came.Sub(p.began).Seconds())
		})
	}
	if t.Failed() {
		t.FailNow()
	}
}

// heard returns the fences of the locks that a process says it holds next, by their keys.
func heard(t *testing.T, p *env.Program, n int) map[string][]uint64 {
	t.Helper()
	fences := map[string][]uint64{}
	for range n {
		var (
			line  = p.Line()
			fence uint64
		)
		key, ok := cutWord(line, "held ", &fence)
		require.True(t, ok, line)
		fences[key] = append(fences[key], fence)
	}
	return fences
}

// cutWord reads "<prefix><key> <value>".
func cutWord(line, prefix string, value any) (key string, ok bool) {
	end := len(line) - 1
	for end > len(prefix) && line[end] != ' ' {
		end--
	}
	if end <= len(prefix) || line[:len(prefix)] != prefix {
		return "", false
	}
	_, err := fmt.Sscan(line[end+1:], value)
	return line[len(prefix):end], err == nil
}

// death is a way in which a process ends, or seems to.
type death struct {
	denied string // a right that its user lacks
	warned bool   // the server has noticed it for a beat before there is something to grant
	free   bool   // it costs nothing
	die    func(t *testing.T, s *stage, proxy *env.Proxy)
	revive func(s *stage, proxy *env.Proxy)
}

var deaths = map[string]death{
	// The kernel acknowledges what the server sends, and the server counts a listener.
	"stopped": {
		warned: true,
		die: func(_ *testing.T, s *stage, _ *env.Proxy) {
			for _, p := range s.waiting {
				p.Stop()
			}
		},
		revive: func(s *stage, _ *env.Proxy) {
			for _, p := range s.waiting {
				p.Cont()
			}
		},
	},
	// A machine that is gone closes no connection.
	"out of reach": {
		warned: true,
		die:    func(_ *testing.T, _ *stage, proxy *env.Proxy) { proxy.BlackHole(true) },
		revive: func(_ *stage, proxy *env.Proxy) { proxy.BlackHole(false) },
	},
	// Nobody can tell whether somebody would listen.
	"killed, and could not subscribe": {
		denied: "-ssubscribe",
		die: func(_ *testing.T, s *stage, _ *env.Proxy) {
			for _, p := range s.waiting {
				p.Kill()
			}
		},
	},
	"killed": {
		free: true,
		die: func(t *testing.T, s *stage, proxy *env.Proxy) {
			for _, p := range s.waiting {
				p.Kill()
			}
			env.Soon(t, func() bool {
				reply := s.server.Do(t, "PUBSUB", "SHARDCHANNELS")
				left, err := reply.ToArray()
				return err == nil && len(left) == 1 && proxy.Connections() == 0
			}, "only who lives listens")
		},
	},
}

// Processes that die at the head of the queue cost those behind them a time of waiting of two seconds,
// whatever they want and however they die, and many cost no more than one. Who was not dead goes on, and gets
// what it wants in the end.
func TestWaitersThatDie(t *testing.T) {
	t.Parallel()
	for name, way := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) { waitersDie(t, e, way) })
		})
	}
}

func waitersDie(t *testing.T, e env.Engine, way death) {
	t.Helper()
	s := newStage(t, e, scenes, "", " many times")
	var all, many []want
	for i, p := range s.plays {
		all = append(all, p.dead)
		if i%2 == 1 {
			p.dead.Places = few
			if way.warned && !p.stays {
				p.dead.Places, p.within = lockers, once
			}
			all[i], many = p.dead, append(many, p.dead)
			p.dead.Places *= processes
		}
	}
	proxy := env.NewProxy(t, s.server.Addr())
	address := proxy.Addr()
	if way.denied != "" {
		s.server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all", way.denied)
		address = "u:secret@" + address
	}
	s.begin(t, address, all...)
	for range processes - 1 {
		s.begin(t, address, many...)
	}
	s.awaitDead(t)
	s.join(t)

	way.die(t, s, proxy)
	for _, p := range s.plays {
		p.began = time.Now()
	}
	if way.warned {
		s.server.Do(t, "PING") // after what they have sent before
		time.Sleep(2100 * time.Millisecond)
	}
	s.release(t)
	if way.free {
		for _, p := range s.plays {
			state := env.Inspect(t, s.holds, p.name)
			passed := state.Mode != rlockadmin.Free && len(state.Waiters) == 0
			require.True(t, p.stays || passed, "the release has passed %s on", p.name)
		}
	}
	s.receive(t)
	if way.revive == nil {
		return
	}

	way.revive(s, proxy)
	s.awaitDead(t)
	for _, p := range s.plays {
		require.NoError(t, p.got.Release(t.Context()))
		if p.stays {
			require.NoError(t, p.held.Release(t.Context()))
		}
	}
	for i, program := range s.waiting {
		n := 0
		for _, w := range many {
			n += w.Places
		}
		if i == 0 {
			n += len(many)
		}
		fences := heard(t, program, n)
		for _, p := range s.plays {
			for _, fence := range fences[p.name] {
				require.Greater(t, fence, p.got.Fence(), p.name)
			}
		}
		program.Wait()
	}
}

// A process that stands still after its grant costs its lease, and knows that when it goes on: whether it had
// heard of the grant or not.
func TestWaiterStandsStillAfterItsGrant(t *testing.T) {
	t.Parallel()
	for name, hears := range map[string]bool{"it holds the lock": true, "it has not heard": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				s := newStage(t, e, scenes[:3], "")
				var wants []want
				for _, p := range s.plays {
					p.dead.TTL, p.dead.Keep = 2*time.Second, true
					wants = append(wants, p.dead)
				}
				still := s.begin(t, s.server.Addr(), wants...)
				s.awaitDead(t)
				s.join(t)
				var before map[string][]uint64
				if hears {
					s.release(t)
					before = heard(t, still, len(wants))
					still.Stop()
					for _, p := range s.plays {
						p.began = time.Now()
					}
				} else {
					still.Stop()
					s.release(t)
				}
				s.receive(t)
				still.Cont()
				if hears {
					for range wants {
						var knows bool
						line := still.Line()
						key, ok := cutWord(line, "lost ", &knows)
						require.True(t, ok && knows, line)
						require.Len(t, before[key], 1)
					}
					for _, p := range s.plays {
						require.Greater(t, p.got.Fence(), before[p.name][0], p.name)
					}
					still.Wait()
					return
				}
				s.awaitDead(t)
				require.Empty(t, still.Lines(), "it holds what another has")
				for _, p := range s.plays {
					require.NoError(t, p.got.Release(t.Context()))
				}
				after := heard(t, still, len(wants))
				for _, p := range s.plays {
					require.Greater(t, after[p.name][0], p.got.Fence(), p.name)
				}
			})
		})
	}
}

// A large request, or a writer, that lives has those behind it wait until it had its turn, for however long
// others keep it from that. If the machine is so busy that the process says nothing for two seconds, it is
// tried again.
func TestLargeRequestThatLives(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for range 10 {
			s := newStage(t, e, scenes[3:], "")
			large := s.begin(t, s.server.Addr(), s.plays[0].dead, s.plays[1].dead)
			s.awaitDead(t)
			s.join(t)
			time.Sleep(5 * time.Second)
			if slices.ContainsFunc(s.plays, func(p *play) bool { return len(p.arrives) == 1 }) {
				t.Log("who came later has not waited")
				continue
			}
			for _, p := range s.plays {
				p.began = time.Now()
				require.NoError(t, p.held.Release(t.Context()))
			}
			s.receive(t)
			turns := heard(t, large, len(s.plays))
			for _, p := range s.plays {
				require.Greater(t, turns[p.name][0], p.held.Fence(), p.name)
				require.Greater(t, p.got.Fence(), turns[p.name][0], p.name)
			}
			return
		}
		require.Fail(t, "those who come later do not wait")
	})
}

// A thousand that wait, in ten processes, send a hundred scripts a second, all of them together, and keep
// their places by that. Those behind send one in 15 seconds. A busy machine sends fewer.
func TestThousandWaitersAreQuiet(t *testing.T) {
	t.Parallel()
	const children, places = 10, 100
	server := env.Start(t)
	server.Do(t, "SET", "k", "stranger")
	l := env.OpenOn(t, server)
	s := &stage{server: server, holds: l}
	for range children {
		s.begin(t, server.Addr(), want{Key: "k", Places: places, TTL: deadTTL})
	}
	all := func() bool { return s.queue(t, &play{scene: scene{name: "k"}}) == children*places }
	require.Eventually(t, all, 3*time.Minute, 100*time.Millisecond)
	began, before := time.Now(), server.ScriptCalls(t)
	time.Sleep(15 * time.Second)
	sent := server.ScriptCalls(t) - before
	rate := float64(sent) / time.Since(began).Seconds()
	t.Logf("%.0f scripts a second", rate)
	require.LessOrEqual(t, rate, 100.0)
	require.True(t, all())
}
