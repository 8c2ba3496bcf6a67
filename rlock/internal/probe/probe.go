// Package probe is the self-test. It tries what locks need of the client, the server and the user's rights,
// and says in words what is missing.
//
// It does not know of held locks, or how a script is called. It gets a scratch lock to try, and calls the
// methods of that lock in the order in which a program would.
package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clientoption"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Row is the answer to one question.
type Row struct {
	Name     string
	Server   string // address, if the row is about one server
	Severity Severity
	Text     string // what is so, what it means and what to do about it
	Err      error  // the error of the server or the client that says so; may be nil
}

// Severity says what a row means.
type Severity int

// The severities, from the least to the most important for locks.
const (
	OK    Severity = iota // as it should be
	Note                  // it works, in a way that the operator should know of
	Fault                 // locks fail, are lost, or do not wake their waiters
)

// Scratch is a lock to try, on a key that no other caller has.
type Scratch interface {
	Key() string
	Acquire(ctx context.Context) (acquired bool, err error)
	// Peek reads the key through the client-side cache, if the client has one.
	Peek(ctx context.Context) (held, cached bool, err error)
	Release(ctx context.Context) error
	// Stand runs the script of waiters for the key, for a token that does not wait.
	Stand(ctx context.Context) error
	// Channel returns the channel that carries grants to this process.
	Channel() string
}

// Target is what the probe tries.
type Target struct {
	Client   rueidis.Client         // its calls end with their context
	Built    rueidis.Client         // as the user, or Open, has built it
	TimeOuts *clientoption.TimeOuts // of the client; nil: not known
	Lease    time.Duration          // of the locks, unless a call names another
	Scratch  Scratch
	// Changed has a value when the server has told of a change of the scratch key. With nil, the process
	// does not listen.
	Changed <-chan struct{}
	Mode    wire.Mode
	Grants  Listener
	Poll    time.Duration   // pause of a waiter while the server tells nothing
	Stop    <-chan struct{} // ends the test with clock.ErrStopped
}

// TTL is the lease of the scratch lock, if nothing releases it.
const TTL = 5 * time.Second

// maxPush is how long the server may take to tell of a change.
const maxPush = time.Second

// Run tries the target. Each finding becomes a row. If Run cannot find something out, it returns an error,
// together with the rows until then.
func Run(ctx context.Context, target Target) ([]Row, error) {
	p := &probe{Target: target}
	err := p.run(ctx)
	return p.rows, err
}

type probe struct {
	Target
	rows []Row
}

func (p *probe) add(name string, severity Severity, err error, format string, args ...any) {
	p.rows = append(p.rows, Row{Name: name, Severity: severity, Text: fmt.Sprintf(format, args...), Err: err})
}

// run returns an error when a call gets no answer.
func (p *probe) run(ctx context.Context) error {
	sent := clock.Now()
	acquired, err := p.Scratch.Acquire(ctx)
	if wire.OutcomeOf(err) == wire.Indeterminate {
		return err
	}
	p.client()
	p.locks(acquired, time.Duration(clock.Now()-sent), err)
	if err == nil {
		if err := p.pushes(ctx); err != nil {
			return err
		}
		queued, err := p.queue(ctx)
		if err != nil {
			return err
		}
		if err := p.shared(ctx, queued); err != nil {
			return err
		}
	}
	return p.servers(ctx)
}

func (p *probe) locks(acquired bool, took time.Duration, err error) {
	var server *rueidis.RedisError
	refused := errors.As(err, &server)
	switch {
	case err == nil && acquired:
		text := ""
		if strings.HasPrefix(p.Scratch.Key(), "rlock:probe:") {
			text = "; the test tries the rights to your own keys only for a Locker WithPrefix, " +
				"or with --prefix of rlock probe"
		}
		p.add("locks", OK, nil, "acquired in %v%s", took.Round(time.Microsecond), text)
	case refused && strings.HasPrefix(server.Error(), "READONLY"):
		p.add("locks", Fault, err, "the server is a replica that takes no writes; connect to the primary, and "+
			"build the client without ReplicaOnly")
	case refused && denied(server):
		p.add("locks", Fault, err, "the user may not acquire a lock of the key %s; %s",
			strconv.Quote(p.Scratch.Key()), p.rule())
	default:
		p.add("locks", Fault, err, "a free lock cannot be acquired")
	}
}

// rule asks for all rights that locks need, in one line for the operator. docs/PRODUCTION.md has the same
// line, and the fewest rights that are enough.
func (p *probe) rule() string {
	prefix, _, _ := strings.Cut(p.Scratch.Key(), "rlock:probe:") // the prefix of the Locker
	if prefix == "" || strings.ContainsAny(prefix, "*?[]^\\ \t\r\n\"'") {
		prefix = "<your keys>"
	}
	return fmt.Sprintf("grant ACL SETUSER <user> ~%s* ~rlock:* &rlock:* +@all -@admin -@dangerous +info +role "+
		"(docs/PRODUCTION.md lists fewer rights that are enough; without "+
		"~rlock:*, locks work WithFence(false) and WithQueue(false))", prefix)
}

// denied reports whether the user lacked a right, in a script or outside.
func denied(err error) bool { return wire.Forbidden(err) }
