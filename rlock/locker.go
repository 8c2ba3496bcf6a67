package rlock

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clientoption"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/conntrack"
	"github.com/rlock-go/toolkit/rlock/internal/drain"
	"github.com/rlock-go/toolkit/rlock/internal/interrupt"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// New returns a Locker that uses the client of the caller as it is. Close of the Locker leaves the client
// open. The options are the defaults of every lock. Every call runs in a goroutine of its own, so the call
// ends with its context even while the client dials. From the first wait on, the Locker hears of grants on a
// connection of its own. It takes this connection from the client's connections for blocking commands
// (BlockingPoolSize). On a cluster it uses one
// connection to each node.
//
// New cannot see the options of the client, so the caller must set them:
//
//   - Leave ConnLifetime out. With it rueidis sends commands twice, and two callers may hold a lock.
//   - Set Dialer.KeepAlive to a tenth of the shortest lease that is extended. The default is 1 s.
//   - Set ConnWriteTimeout to a fifth of that lease. The default is 10 s, so a lease of 10 s may end when a
//     connection dies silently.
//
// docs/CLIENT.md has all options.
func New(client rueidis.Client, opts ...LockerOption) (*Locker, error) {
	if client == nil {
		return nil, invalid("client", "it is nil")
	}
	set, err := lockerSettings(opts)
	if err != nil {
		return nil, err
	}
	return onClient(client, interrupt.Of(client), set), nil
}

// served answers the calls of a Locker.
type served struct {
	client rueidis.Client    // nil: a Backend answers
	calls  *interrupt.Client // makes the calls of client
	server *wire.Server
	reader notify.Server
}

// onClient returns a Locker of a client.
func onClient(client rueidis.Client, calls *interrupt.Client, set *settings) *Locker {
	scripts := wire.Scripts()
	server := wire.NewServer(calls, scripts, wire.NewToken(""))
	server.Queues().LetBarge(set.barging)
	server.Queues().Choose(set.queue)
	l := newLocker(client, served{client, calls, server, notify.NewServer(client, scripts)}, set)
	l.look = l.peek
	return l
}

// newLocker returns a Locker. of is the client or the Backend.
func newLocker(of any, by served, set *settings) *Locker {
	l := &Locker{
		client:   by.client,
		calls:    by.calls,
		wire:     by.server,
		cluster:  by.client != nil && by.client.Mode() == rueidis.ClientModeCluster,
		defaults: set,
		lines:    line.New(set.turn),
		underway: drain.New(),
	}
	l.background, l.stop = context.WithCancel(context.Background())
	l.grants = notify.NewGrants(l.background, by.client, l.wire.Queues().Channel, func(g notify.Grant) {
		l.wire.Queues().DiscardStray(g.Key, g.Token)
	})
	l.closed = l.background.Done()
	l.server = l
	if reflect.ValueOf(of).Comparable() {
		l.server = of
	}
	l.registry.Init(tokensOver)
	l.waiters.Init(nil) // a wait has no deadline
	l.renewals = renew.New(l.background, l.wire, deliverScheduled)
	if set.invalidations != nil {
		l.listener = set.invalidations.hub.Listen()
	}
	if l.listener != nil {
		l.listener.OnAll(l.grants.Wake) // the places in the queues may be gone
		l.monitor = notify.NewMonitor(l.background, l.listener, by.reader, deliverRead)
	}
	if !set.unfenced {
		slot.PrepareFences()
	}
	return l
}

// Open builds a client from option and returns a Locker that owns the client: Close closes both. Open
// installs Invalidations, which run before OnInvalidations of option. Before it dials, Open refuses two
// options: ReplicaOnly, because a replica takes no lock, and ConnLifetime, with which rueidis sends commands
// twice. docs/CLIENT.md has all options.
//
// If Dialer.KeepAlive or ConnWriteTimeout of option is 0, Open sets it. Then locks WithAutoExtend
// outlast connections that die silently, if their leases are no shorter than the TTL of Open. With the
// default TTL, 10 s, the client sends a ping each second, and the server must answer within 2.3 s. A lock
// with a shorter lease makes an EventShortLease.
func Open(option rueidis.ClientOption, opts ...LockerOption) (*Locker, error) {
	set, err := lockerSettings(opts)
	if err != nil {
		return nil, err
	}
	if option.DisableCache && set.invalidations != nil {
		return nil, invalid("WithInvalidations",
			"the server sends a client with DisableCache no invalidations; leave one of the two out")
	}
	if name, reason := clientoption.Refused(&option); name != "" {
		return nil, invalid(name, reason)
	}
	timeOuts := clientoption.Complete(&option, set.ttl)
	if !option.DisableCache {
		option, set = withInvalidations(option, set)
	}
	var dialled *conntrack.Tracker
	health := interrupt.NewHealth(&option, func(n int64) bool { return dialled.Serves(n) }, timeOuts.Notices())
	lone := newLone(&option, health, timeOuts)
	dialled = conntrack.New(func() bool { lone.GiveUp(); return health.Waited() })
	client, err := rueidis.NewClient(dialled.Wrap(option))
	if err != nil {
		dialled.Abort()
		if advice := wire.Advice(err); advice != "" {
			return nil, fmt.Errorf("rlock: open: %w (%s)", err, advice)
		}
		return nil, fmt.Errorf("rlock: open: %w", err)
	}
	l := onClient(client, interrupt.Opened(client, &option, health).WithLone(lone), set)
	l.dialled, l.timeOuts, l.lone = dialled, &timeOuts, lone
	if l.listener != nil { // option may limit what the server tells
		l.listener.SetHeard(option.ClientTrackingOptions == nil)
	}
	return l, nil
}

// newLone returns the extra connection for calls that are alone: no other call is under way. It returns nil
// if the client cannot have one.
func newLone(
	option *rueidis.ClientOption, health *interrupt.Health, timeOuts clientoption.TimeOuts,
) *interrupt.Lone {
	plain, may := clientoption.Lone(option, timeOuts)
	if health == nil || !may {
		return nil
	}
	return interrupt.NewLone(func(ctx context.Context) (*interrupt.Direct, error) {
		dialled := conntrack.New(func() bool { return false })
		defer context.AfterFunc(ctx, dialled.Abort)()
		option, direct := dialled.Wrap(plain), &interrupt.Direct{}
		dial := option.DialCtxFn
		option.DialCtxFn = func(
			ctx context.Context, address string, dialer *net.Dialer, security *tls.Config,
		) (conn net.Conn, err error) {
			direct.Conn, err = dial(ctx, address, dialer, security)
			return direct.Conn, err
		}
		client, err := rueidis.NewClient(option)
		if err != nil {
			dialled.Abort()
			return nil, err
		}
		direct.Client, direct.Close = client, func() { dialled.Close(client, closingTime) }
		return direct, nil
	}, timeOuts.Ping)
}

// withInvalidations gives option the Invalidations of the settings, or new ones.
func withInvalidations(option rueidis.ClientOption, set *settings) (rueidis.ClientOption, *settings) {
	changed := *set
	if changed.invalidations == nil {
		changed.invalidations = NewInvalidations()
	}
	invalidations, own := changed.invalidations, option.OnInvalidations
	option.OnInvalidations = func(messages []rueidis.RedisMessage) {
		invalidations.OnInvalidations(messages)
		if own != nil {
			own(messages)
		}
	}
	return option, &changed
}

// Client returns the client of the Locker, or nil if the Locker has a Backend. Close of the Locker closes a
// client that Open made.
func (l *Locker) Client() rueidis.Client {
	if l == nil {
		return nil
	}
	return l.client
}

// Close ends the Locker at once. It releases no lock, because work under a lock may go on: the leases run
// out. Shutdown is for a process that stops in order.
//
// Waiting calls fail with ErrClosed, and the Context of every held lock ends with ErrClosed. An acquisition
// under way may leave its key until the lease ends. If the server does not answer, Close takes at most 6
// seconds, or 8 if the dial function of the client ignores its context. A second Close does nothing.
func (l *Locker) Close() {
	if l.usable() == nil {
		l.close()
	}
}

// close is Close, and returns the keys that background releases may leave.
func (l *Locker) close() (left []string) {
	var ended []*scheduled
	defer func() { deliverScheduled(ended) }() // even if a method of a context of a lock panics
	l.closing.Do(func() {
		l.closedAt = clock.Now()
		l.stop()
		l.underway.Stop()
		if l.listener != nil {
			l.listener.OnAll(nil)
		}
		l.lines.Wake()
		l.grants.Close()
		defer func() {
			left = l.wire.Close(closingTime)
			if l.calls != nil {
				l.calls.End()
			}
			var lone sync.WaitGroup
			lone.Go(l.lone.Close)
			defer lone.Wait()
			if l.dialled != nil {
				l.dialled.Close(l.client, closingTime)
			}
		}()
		ended = l.renewals.Close()
		renew.ExpireAll(ended)
	})
	return left
}

// closingTime limits each step of Close that may wait: freeing keys, and closing connections.
const closingTime = 2 * time.Second
