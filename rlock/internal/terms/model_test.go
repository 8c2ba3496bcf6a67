package terms_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

var (
	runs = flag.Int("runs", 10_000, "how many random runs of the model")
	seed = flag.Uint64("seed", 0, "of the first run; 0: random")
)

// TestModel sends extensions to a simulated server that runs them late, in any order,
// twice or never, and whose answers come late or never. After every step the server's lease
// must last at least as long as this process counts it.
func TestModel(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	seen := map[string]int{}
	for i := range uint64(*runs) {
		m := newModel(t, first+i, seen)
		for m.now < m.Deadline() && m.steps < 60 {
			m.step()
			m.check()
		}
	}
	for _, what := range []string{
		"confirmed", "refused", "lost", "late", "twice", "shortened", "shortened, superseded", "token restored",
		"expired here", "read", "read again",
		"cut", "cut, found", "cut, beside an extension",
	} {
		require.NotZero(t, seen[what], "no run was about: %s", what)
	}
}

// command is an extension on its way.
type command struct {
	terms.Extension
	arrives  bool // the server has not run it yet, but will
	answered bool // the lease knows what became of it
	ran      bool
	position int // as the server answered
}

// model is a lease and the server that it is about.
type model struct {
	*terms.Terms
	*rand.Rand
	t     *testing.T
	seed  uint64
	now   clock.Instant
	steps int
	seen  map[string]int
	mint  func() string

	owner    string        // of the key, "" if it has expired
	expires  clock.Instant // of the key
	commands []*command
	cut      bool // somebody else has shortened the lease, and nobody has noticed
}

func newModel(t *testing.T, seed uint64, seen map[string]int) *model {
	m := &model{
		Terms: &terms.Terms{}, Rand: rand.New(rand.NewPCG(seed, 0)),
		t: t, seed: seed, now: at(0), seen: seen, mint: minter(),
	}
	sent, ttl := m.now, m.ttl()
	m.Prepare(ttl, "t0")
	m.pass()
	m.owner, m.expires = "t0", m.now.After(ttl)
	if ttl == clock.NoExpiry {
		m.expires = clock.Never
	}
	m.pass()
	m.Start(clock.LeaseEnd(sent, ttl))
	return m
}

func (m *model) ttl() time.Duration {
	if m.IntN(20) == 0 {
		return clock.NoExpiry
	}
	return time.Duration(5+m.IntN(200)) * time.Millisecond
}

// pass lets some time pass.
func (m *model) pass() {
	m.now = m.now.After(time.Duration(m.ExpFloat64() * float64(4*time.Millisecond)))
	if m.now >= m.expires {
		m.owner = ""
	}
}

func (m *model) step() {
	m.steps++
	m.pass()
	if m.now >= m.Deadline() {
		m.seen["expired here"]++
		return
	}
	switch m.IntN(9) {
	case 0, 1:
		m.send(m.Begin(m.now, m.ttl(), m.mint))
	case 2:
		m.send(m.BeginRenewal(m.now, clock.NoExpiry))
	case 3:
		if m.IntN(3) == 0 {
			m.Returned()
		}
	case 4, 5, 6:
		if c := m.pick(func(c *command) bool { return c.arrives }); c != nil {
			m.arrive(c)
		}
	case 7:
		if c := m.pick(func(c *command) bool { return !c.answered }); c != nil {
			m.answer(c)
		}
	case 8:
		m.read()
	}
}

func (m *model) send(e terms.Extension) {
	m.commands = append(m.commands, &command{Extension: e, arrives: true})
	if len(e.Former) > 0 {
		m.seen["shortened"]++
	}
}

func (m *model) pick(which func(*command) bool) *command {
	fit := slices.DeleteFunc(slices.Clone(m.commands), func(c *command) bool { return !which(c) })
	if len(fit) == 0 {
		return nil
	}
	return fit[m.IntN(len(fit))]
}

// arrive runs a command as extend.lua does, and leaves some of them to arrive again.
func (m *model) arrive(c *command) {
	if c.answered {
		m.seen["late"]++
	}
	if c.ran {
		m.seen["twice"]++
	}
	c.arrives, c.ran, c.position = m.IntN(4) == 0, true, 0
	if m.owner != c.Token && !slices.Contains(c.Former, m.owner) || m.owner == "" {
		c.position = 1
		return
	}
	end := clock.Never
	if c.TTL != clock.NoExpiry {
		end = m.now.After(c.TTL)
	}
	if m.owner == c.Token {
		m.expires = max(m.expires, end)
	} else {
		m.owner, m.expires = c.Token, end
	}
}

// answer tells the lease what became of a command.
func (m *model) answer(c *command) {
	c.answered = true
	superseded := m.Superseded(c.Extension)
	if superseded {
		m.seen["shortened, superseded"]++
	}
	switch {
	case c.ran && c.position == 0 && m.IntN(5) > 0:
		m.seen["confirmed"]++
		m.Confirm(c.Extension, m.now)
	case c.ran && c.position != 0 && !superseded:
		if m.expires > c.Sent && !m.cut {
			m.wrong("the server has refused a token that it should know: %+v", *c)
		}
		m.Forget(c.Extension)
	case !c.ran && m.IntN(2) == 0: // an error such as OOM, LOADING or NOPERM
		m.seen["refused"]++
		c.arrives = false
		token := m.Token()
		m.Refuse(c.Extension, m.now)
		if m.Token() != token {
			m.seen["token restored"]++
		}
	default:
		m.seen["lost"]++
		m.Forget(c.Extension)
	}
}

// read asks the server who has the key and for how long, while other things happen, and
// now and then has somebody else shorten the lease before.
func (m *model) read() {
	if m.IntN(4) == 0 && m.owner != "" {
		m.seen["cut"]++
		m.cut = true
		m.expires = min(m.expires, m.now.After(m.ttl()))
	}
	v, sent, cut := m.Version(), m.now, m.cut
	m.pass()
	owner, left := m.owner, time.Duration(m.expires-m.now)
	if m.expires == clock.Never {
		left = clock.NoExpiry
	}
	m.pass()
	if m.IntN(2) == 0 {
		m.send(m.Begin(m.now, m.ttl(), m.mint))
	}
	is, again := m.Lost(owner, v)
	m.seen["read"]++
	if again {
		m.seen["read again"]++
	}
	if is && owner != "" {
		m.wrong("lost to %q", owner)
	}
	if is || again || owner == "" || left == clock.NoExpiry || m.now >= m.Deadline() {
		return
	}
	before := m.Deadline()
	switch verdict := m.Shortened(v, left, sent, m.now); {
	case verdict == terms.Unsettled:
		if cut {
			m.seen["cut, beside an extension"]++
		}
	case verdict == terms.Settled && m.Version().Sent != v.Sent:
		if m.Deadline() != before {
			m.wrong("an answer that is out of date has moved the deadline")
		}
	default:
		m.cut = false
		if cut && verdict == terms.Settled {
			m.seen["cut, found"]++
		}
	}
}

// check is what must be so at any time.
func (m *model) check() {
	if m.now >= m.Deadline() || m.cut {
		return
	}
	switch {
	case m.owner == "":
		m.wrong("the key has expired")
	case !slices.Contains(m.Tokens(), m.owner):
		m.wrong("the key has %q", m.owner)
	case m.expires < m.Deadline():
		m.wrong("the key expires %v before the deadline", time.Duration(m.Deadline()-m.expires))
	}
}

func (m *model) wrong(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d, step %d, at %v: the lease has %v until %v: %s",
		m.seed, m.steps, time.Duration(m.now-at(0)), m.Tokens(), time.Duration(m.Deadline()-at(0)),
		fmt.Sprintf(format, args...))
}
