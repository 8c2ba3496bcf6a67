package rlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

// Locker takes and checks locks through one rueidis client. Make one with New or
// Open and share it: it is safe for concurrent use.
type Locker struct {
	client   rueidis.Client
	owned    bool // Close closes the client
	cluster  bool
	scripts  *gen.Scripts
	defaults *settings
	keeper   keeper

	uncached atomic.Bool // the client has no cache: Check asks the server

	closing    sync.Mutex
	closed     chan struct{} // closed by Close
	background sync.WaitGroup
}

// New returns a Locker that uses the caller's client as it is. Closing the Locker
// leaves the client open.
//
// The options are the defaults of every lock.
func New(client rueidis.Client, opts ...Option) (*Locker, error) {
	if client == nil {
		return nil, &ArgumentError{"client", "it is nil"}
	}
	set, err := defaults.with(opts)
	if err != nil {
		return nil, err
	}
	if set.token != "" {
		return nil, &ArgumentError{"WithToken", "as a default it would make every lock own every other; give it to a call"}
	}
	l := &Locker{
		client:   client,
		cluster:  client.Mode() == rueidis.ClientModeCluster,
		scripts:  gen.NewNoRetry(),
		defaults: set,
		closed:   make(chan struct{}),
	}
	l.keeper.extend = l.extendAll
	return l, nil
}

// Open builds a client from option and returns a Locker that owns it: Close
// closes both.
func Open(option rueidis.ClientOption, opts ...Option) (*Locker, error) {
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("rlock: open: %w", err)
	}
	l, err := New(client, opts...)
	if err != nil {
		client.Close()
		return nil, err
	}
	l.owned = true
	return l, nil
}

// Close ends the Locker: waiting calls fail with ErrClosed, nothing is extended
// any more, and the Context of every lock still held ends with ErrClosed. It does
// not release them, because whoever works under them may not have stopped yet;
// their leases run out. It waits up to 2 seconds for releases that are under way
// in the background, then closes the client if Open made it. Closing twice is
// fine.
func (l *Locker) Close() {
	l.closing.Lock()
	again := l.isClosed()
	if !again {
		close(l.closed)
	}
	l.closing.Unlock()
	if again {
		return
	}
	l.keeper.close()

	done := make(chan struct{})
	go func() {
		l.background.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
	if l.owned {
		l.client.Close()
	}
}

func (l *Locker) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// detach runs f in the background with a context of its own, which ends after
// limit. After Close nothing new is started.
func (l *Locker) detach(limit time.Duration, f func(ctx context.Context)) {
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.isClosed() {
		return
	}
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		f(ctx)
	})
}
