package chaos

import (
	"slices"
	"strconv"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// fault is something that goes wrong for a while, or at one instant.
type fault struct {
	kind     string
	target   string // two faults of one target never overlap
	process  int    // the process that the fault concerns; 0: all
	harmless bool   // the fault loses no reply
	late     bool   // commands may arrive after their callers gave up, or callers cannot clean up
	lasts    time.Duration
	begin    func()
	end      func() // nil: the fault ends by itself
}

// disturbance is a fault that has happened.
type disturbance struct {
	span
	kind     string
	process  int // the process that the fault concerned; 0: all
	late     bool
	harmless bool
}

func (d disturbance) concerns(process int, s span) bool {
	return (d.process == 0 || d.process == process) && d.meets(s)
}

// between draws the time that a fault lasts.
func (r *round) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.random.Int64N(int64(most-least)))
}

// serverFaults are the faults that keep the data of a server. The server must persist its data.
func (r *round) serverFaults(name string, s *env.Server) []func() fault {
	command := func(kind string, harmless bool, args ...string) func() fault {
		return func() fault {
			return fault{kind: kind, target: name, harmless: harmless, begin: func() { s.Do(r.t, args...) }}
		}
	}
	return []func() fault{
		func() fault {
			return fault{kind: "server restarts", target: name, late: true,
				lasts: r.between(10*time.Millisecond, time.Second),
				begin: s.Kill, end: func() { s.Restart(r.t) }}
		},
		func() fault {
			return fault{kind: "server stops", target: name, late: true,
				lasts: r.between(50*time.Millisecond, 1500*time.Millisecond),
				begin: s.Stop, end: s.Cont}
		},
		command("SCRIPT FLUSH", true, "SCRIPT", "FLUSH"),
		command("CLIENT KILL", false, "CLIENT", "KILL", "TYPE", "normal"),
		command("CLIENT KILL, subscribers", true, "CLIENT", "KILL", "TYPE", "pubsub"),
		func() fault {
			return fault{kind: "queues deleted", target: name, harmless: true,
				begin: func() { s.Do(r.t, "EVAL", deleteQueues, "0") }}
		},
		func() fault {
			// A Locker that the server refuses works without the queue from then on, beside Lockers
			// that use it.
			return fault{kind: "rights withdrawn", target: name, harmless: true,
				lasts: r.between(10*time.Millisecond, time.Second),
				begin: func() { s.Do(r.t, "ACL", "SETUSER", "default", "resetchannels", "-spublish") },
				end:   func() { s.Do(r.t, "ACL", "SETUSER", "default", "allchannels", "+spublish") }}
		},
		func() fault {
			pause := r.between(50*time.Millisecond, time.Second)
			return fault{kind: "CLIENT PAUSE WRITE", target: name, late: true, lasts: pause,
				begin: func() { s.Do(r.t, "CLIENT", "PAUSE", "10000", "WRITE") },
				end:   func() { s.Do(r.t, "CLIENT", "UNPAUSE") }}
		},
	}
}

// deleteQueues makes every waiter join again.
const deleteQueues = "for _, key in ipairs(redis.call('KEYS', 'rlock:queue:*')) do redis.call('DEL', key) " +
	"end return 0"

// slotMoves move the slot of some keys from one primary to another. nodes are the primaries, and
// may change during the round. A move may stand still before or after its keys have gone.
func (r *round) slotMoves(nodes []*env.Server) []func() fault {
	groups := slices.Concat(keys, sharedKeys)
	owners := make([]int, len(groups)) // node of each group's slot
	for i, group := range groups {
		owners[i] = env.FirstOwner(group[0])
	}
	move := func() fault {
		i, to := r.random.IntN(len(groups)), 1+r.random.IntN(len(nodes)-1)
		to = (owners[i] + to) % len(nodes)
		before, after := r.between(0, 300*time.Millisecond), r.between(0, 200*time.Millisecond)
		m := env.SlotMove{Cluster: &env.Cluster{Nodes: nodes}, Slot: strconv.Itoa(int(redislua.Slot(groups[i][0])))}
		return fault{kind: "slot moves", target: "slot of " + groups[i][0], lasts: before,
			begin: func() {
				m.From, m.To = nodes[owners[i]], nodes[to]
				m.Begin(r.t)
			},
			end: func() {
				m.CarryAll(r.t)
				time.Sleep(after)
				m.End(r.t)
				owners[i] = to
			}}
	}
	return []func() fault{move}
}

// commands are the commands that a faulty network may pick out.
var commands = []string{
	gen.AcquireSHA1, gen.AcquireManySHA1, gen.AcquireAllSHA1, gen.WaitSHA1, gen.ReleaseSHA1, gen.ReleaseManySHA1,
	gen.RequeueSHA1,
	gen.ExtendSHA1, gen.AttachSHA1, gen.HandOverSHA1, "SET", "EVALSHA",
}

// networkFaults are the faults of the network between one process and the server.
func (r *round) networkFaults(place int, p *env.Proxy) []func() fault {
	name := "network of " + r.processName(place)
	some := func() func([]byte) bool { return env.Contains(commands[r.random.IntN(len(commands))]) }
	return r.concerning(place, []func() fault{
		func() fault { return fault{kind: "connections cut", target: name, begin: p.Cut} },
		func() fault {
			d := r.between(time.Millisecond, 200*time.Millisecond)
			return fault{kind: "network slow", target: name, late: true,
				lasts: r.between(100*time.Millisecond, time.Second),
				begin: func() { p.Delay(d) }, end: func() { p.Delay(0) }}
		},
		func() fault {
			return fault{kind: "network silent", target: name, late: true,
				lasts: r.between(50*time.Millisecond, 1500*time.Millisecond),
				begin: func() { p.BlackHole(true) }, end: func() { p.BlackHole(false) }}
		},
		r.dropReplies(name, p),
		func() fault {
			var release func()
			match := some()
			return fault{kind: "requests held", target: name, late: true,
				lasts: r.between(50*time.Millisecond, time.Second),
				begin: func() { release = p.Hold(match) }, end: func() { release() }}
		},
	})
}

// dropReplies lets commands run, and drops the replies.
func (r *round) dropReplies(name string, p *env.Proxy) func() fault {
	return func() fault {
		match, count := env.Contains(commands[r.random.IntN(len(commands))]), 1+r.random.IntN(5)
		return fault{kind: "replies dropped", target: name, begin: func() {
			for range count {
				p.DropReply(match)
			}
		}}
	}
}

// processFaults are the faults of the process in a place.
func (r *round) processFaults(place int) []func() fault {
	name := r.processName(place)
	return r.concerning(place, []func() fault{
		func() fault {
			return fault{kind: "process stops", target: name, late: true,
				lasts: r.between(50*time.Millisecond, 2*time.Second),
				begin: func() { r.members[place].Stop() }, end: func() { r.members[place].Cont() }}
		},
		func() fault {
			return fault{kind: "process killed", target: name, late: true, begin: func() { r.replace(place) }}
		},
	})
}

// concerning makes each fault concern the process that is in the place when the fault begins.
func (r *round) concerning(place int, faults []func() fault) []func() fault {
	for i, draw := range faults {
		faults[i] = func() fault {
			f := draw()
			f.process = r.members[place].number
			return f
		}
	}
	return faults
}
