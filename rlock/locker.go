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

// New returns a Locker that uses the caller's client as it is, and leaves it open when it is closed. The
// options are the defaults of every lock. Nobody knows when such a client dials, so each call has a
// goroutine of its own, to end with its context. From when a first caller waits, the Locker has one of the
// client's connections for blocking commands (BlockingPoolSize), to hear of grants: on a cluster one to each
// node.
//
// New cannot see the options of the client. Leave ConnLifetime out, with which rueidis sends commands twice,
// so that two may hold a lock. Set Dialer.KeepAlive to a tenth, and ConnWriteTimeout to a fifth of the
// shortest lease that is extended: by default they are 1 and 10 s, and a lock with a lease of 10 s may be
// lost when connections die silently. docs/CLIENT.md has all options.
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

// served is who answers the calls of a Locker.
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
	l.waiters.Init(nil) // a wait has no end of its own
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

// Open builds a client from option and returns a Locker that owns it: Close closes both. It installs
// Invalidations, before the option's own OnInvalidations. It refuses wrong options before it dials:
// ReplicaOnly, since a replica takes no lock, and ConnLifetime, with which rueidis sends commands twice.
// docs/CLIENT.md has all options.
//
// Where the option leaves them open, Dialer.KeepAlive and ConnWriteTimeout are such that locks
// WithAutoExtend outlast connections that die silently, if their leases are no shorter than WithTTL of Open
// (10 s by default): with a ping each second, which must be answered within 2.3 s. A lock whose lease is too
// short for that makes an EventShortLease.
func Open(option rueidis.ClientOption, opts ...LockerOption) (*Locker, error) {
	set, err := lockerSettings(opts)
	if err != nil {
		return nil, err
	}
	if option.DisableCache && set.invalidations != nil {
		return nil, invalid("WithInvalidations",
			"the server tells a client with DisableCache nothing; leave one of the two out")
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
	if l.listener != nil { // the server tells, unless what it is to tell was changed
		l.listener.SetHeard(option.ClientTrackingOptions == nil)
	}
	return l, nil
}

// newLone returns what has the connection for calls of a client that are alone, nil if there is to be none.
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

// withInvalidations gives a client that is to be built the Invalidations of the settings, or a new one.
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

// Client returns the client that the Locker uses, nil if it has a Backend. One that Open made is closed with
// the Locker.
func (l *Locker) Client() rueidis.Client {
	if l == nil {
		return nil
	}
	return l.client
}

// Close ends the Locker at once, and releases no lock, because whoever works under one may not have stopped
// yet: the leases run out. Shutdown is for a process that stops in order. Waiting calls fail with ErrClosed,
// and the Context of every held lock ends with it. An acquisition that is under way may leave its key until
// its lease ends. Close takes at most 6 seconds if the server does not answer, 8 if the client's way of
// dialling heeds no context. Closing twice is fine.
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

// closingTime is for each of the things that Close may have to wait for: what to free, and connections.
const closingTime = 2 * time.Second
