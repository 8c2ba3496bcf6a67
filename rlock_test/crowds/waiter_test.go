package crowds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

// waiter is the environment variable that makes the test binary a process that waits, at the server of that
// URL, for what a line on its standard input asks for: a list of wants.
const waiter = "RLOCK_WAIT_AT"

// want is what somebody waits for.
type want struct {
	Key     string
	Limit   int // of permits; 0: a reader, or whoever wants the whole lock
	Permits int // 0: the whole lock
	TTL     time.Duration
	Places  int  // how many wait, each with a Locker of its own, which the server takes for a process
	Keep    bool // what it gets, until that is lost; otherwise it releases that at once
}

func (w want) acquire(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
	ttl, extended := rlock.WithTTL(w.TTL), rlock.WithAutoExtend(w.Keep)
	switch {
	case w.Limit > 0:
		return l.AcquirePermits(ctx, w.Key, w.Permits, w.Limit, ttl, extended)
	case w.Permits > 0:
		return l.AcquireShared(ctx, w.Key, ttl, extended)
	default:
		return l.Acquire(ctx, w.Key, ttl, extended)
	}
}

// waitFor prints "held <key> <fence>" of each lock that it gets, and "lost <key> <whether it says so>" of one
// that it keeps until it is lost.
func waitFor(url string) error {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	option.RingScaleEachConn = 6 // there are hundreds
	option.ReadBufferEachConn, option.WriteBufferEachConn = 1<<12, 1<<12
	var wants []want
	if err := json.NewDecoder(os.Stdin).Decode(&wants); err != nil {
		return err
	}
	var lockers []*rlock.Locker
	var group sync.WaitGroup
	failed := make(chan error, 1)
	for _, w := range wants {
		for i := range w.Places {
			if i == len(lockers) {
				l, err := rlock.Open(option)
				if err != nil {
					return err
				}
				defer l.Close()
				lockers = append(lockers, l)
			}
			group.Go(func() {
				if err := w.wait(lockers[i]); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
	}
	group.Wait()
	close(failed)
	return <-failed
}

func (w want) wait(l *rlock.Locker) error {
	lock, err := w.acquire(context.Background(), l)
	if err != nil {
		return err
	}
	fmt.Println("held", w.Key, lock.Fence())
	if !w.Keep {
		return lock.Release(context.Background())
	}
	<-lock.Context().Done()
	fmt.Println("lost", w.Key, lock.Err() != nil && errors.Is(context.Cause(lock.Context()), rlock.ErrNotHeld))
	return nil
}
