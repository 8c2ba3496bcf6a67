package remote

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Waiter is a process that waits in the queue of a key.
type Waiter struct {
	Token string
	Since time.Time // when it joined, by the clock of the server
}

// mostWaiters is how many Waiters asks for at most, which keeps the server busy for less than a millisecond.
const mostWaiters = 1000

// Waiters asks who waits in the queue of a key, in its order.
func Waiters(ctx context.Context, s *Server, key string) (all []Waiter, err error) {
	var reply []string
	err = RetryTimes(ctx, Attempts, func(ctx context.Context) (err error) {
		reply, err = s.calls.scripts.Waiters(ctx, s.calls.client, gen.WaitersParams{Queue: slot.Queue(key), Last: mostWaiters - 1})
		return err
	})
	for ; len(reply) > 1; reply = reply[2:] {
		member := strings.SplitN(reply[0], ":", 3)
		score, wrong := strconv.ParseFloat(reply[1], 64)
		if len(member) < 3 || wrong != nil { // the script that passes the lock on takes it out
			continue
		}
		all = append(all, Waiter{member[2], time.UnixMicro(int64(score))})
	}
	return all, err
}
