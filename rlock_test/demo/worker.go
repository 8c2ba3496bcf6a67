package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

// worker is a process. It shares only the server with the other processes.
type worker struct {
	client rueidis.Client
	locker *rlock.Locker
	bank   *bank
	value  string // the key of the guarded writes; the fenced ones add ":fenced"
	lock   *rlock.Lock

	mu  sync.Mutex
	out *json.Encoder
}

// work carries out the orders, line by line. When the lines end, the demo has ended, and work returns.
func work(stdin io.Reader, stdout io.Writer) error {
	option, err := options(os.Getenv(addressVariable))
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	prefix := os.Getenv(prefixVariable)
	// Open makes a client that learns of changed keys from the server. New cannot add that to an existing
	// client.
	locker, err := rlock.Open(option, rlock.WithPrefix(prefix+"lock:"))
	if err != nil {
		return err
	}
	defer locker.Close()
	w := &worker{client: client, locker: locker, bank: newBank(prefix), value: prefix + "value",
		out: json.NewEncoder(stdout)}

	ctx, cancel := context.WithCancel(context.Background())
	orders := make(chan order)
	go func() {
		defer cancel()
		defer close(orders)
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			var o order
			if json.Unmarshal(lines.Bytes(), &o) != nil {
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	w.say(event{Kind: isReady})
	for o := range orders {
		if err := w.follow(ctx, o); err != nil && ctx.Err() == nil {
			w.say(event{Kind: isFailed, Cause: err.Error()})
			return err
		}
	}
	return nil
}

func (w *worker) say(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Now()
	_ = w.out.Encode(e) // on an error, the demo has ended, and this process ends soon
}

func (w *worker) follow(ctx context.Context, o order) error {
	switch o.Do {
	case doTransfers:
		for range o.Count {
			if err := w.transfer(ctx); err != nil {
				return err
			}
		}
		w.say(event{Kind: isDone})
		return nil
	case doAcquire:
		return w.acquire(ctx, o, rlock.WithTTL(o.TTL), rlock.WithAutoExtend(true))
	case doBorrow:
		return w.acquire(ctx, o, rlock.WithTTL(o.TTL))
	case doWrite:
		return w.write(ctx, o.Text)
	case doRelease:
		if err := w.lock.Release(ctx); err != nil {
			return err
		}
		w.say(event{Kind: isReleased})
		return nil
	}
	return fmt.Errorf("no order: %q", o.Do)
}

// transfer moves money under the locks of both accounts. DoAll takes both locks, or waits with neither. Two
// workers that want the same accounts in opposite order therefore cannot wait for each other. DoAll extends
// the lease while the function runs. DoAll releases the locks however the function ends.
func (w *worker) transfer(ctx context.Context) error {
	from, to := w.bank.pair()
	return w.locker.DoAll(ctx, []string{from.lock(), to.lock()},
		func(ctx context.Context, lock *rlock.Lock) error {
			// This ctx ends when the locks are lost. The commands under it then stop, and do not write into
			// accounts that another worker has locked.
			m, err := move(ctx, w.client, from, to, 1+rand.Int64N(10))
			if err != nil {
				return err
			}
			w.say(event{Kind: isTransferred, From: from.name, To: to.name, Move: m, Fence: lock.Fence(),
				Waited: lock.Attempts() > 1})
			return nil
		})
}

// acquire waits for a lock, and reports when the worker holds it. It also reports when the lock ends without
// a release.
func (w *worker) acquire(ctx context.Context, o order, opts ...rlock.Option) error {
	lock, err := w.locker.TryAcquireAll(ctx, o.Keys, opts...)
	waited := errors.Is(err, rlock.ErrHeld)
	if waited {
		w.say(event{Kind: isWaiting})
		lock, err = w.locker.AcquireAll(ctx, o.Keys, opts...)
	}
	if err != nil {
		return err
	}
	w.lock = lock
	held := lock.Context() // from now on the server reports a deleted key
	w.say(event{Kind: isAcquired, Key: lock.Key(), Token: lock.Token(), Fence: lock.Fence(), Waited: waited})
	context.AfterFunc(held, func() {
		if cause := context.Cause(held); !errors.Is(cause, rlock.ErrReleased) {
			w.say(event{Kind: isEnded, Cause: cause.Error(), Lost: errors.Is(cause, rlock.ErrLost)})
		}
	})
	return nil
}

// write writes under a lock without a look at Valid. A process that stops between the look and the write does
// the same. The scripts check the lock in the server.
func (w *worker) write(ctx context.Context, text string) error {
	scripts := bindings.New()
	held := scripts.GuardedPut(ctx, w.client,
		bindings.GuardedPutParams{Lock: w.lock, Value: w.value, Text: text})
	if held != nil && !errors.Is(held, bindings.ErrNotHeld) {
		return held
	}
	fenced := scripts.FencedPut(ctx, w.client,
		bindings.FencedPutParams{Entry: w.value + ":fenced", Text: text, Fence: w.lock})
	if fenced != nil && !errors.Is(fenced, bindings.ErrStaleFence) {
		return fenced
	}
	w.say(event{Kind: isWritten, Held: textOf(held), Fenced: textOf(fenced)})
	return nil
}

// textOf returns the text of an error, or "" without an error.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
