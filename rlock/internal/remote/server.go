package remote

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Server calls the scripts for a caller who has keys and tokens. On a cluster, all keys of one
// call must be in one slot. Its errors show no token.
type Server struct {
	client  rueidis.Client
	scripts *gen.Scripts
}

// NewServer returns the server that the client is connected to.
func NewServer(client rueidis.Client, scripts *gen.Scripts) *Server {
	return &Server{client, scripts}
}

// Release frees the keys that have the token, within Patience and while ctx lasts. It reports
// whether it has freed all of them, or a try without an answer may have done so.
func (s *Server) Release(ctx context.Context, keys []string, token string) (freed bool, err error) {
	uncertain := false
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		n, err := s.scripts.Release(ctx, s.client, gen.ReleaseParams{Locks: keys, Token: token})
		freed = n == int64(len(keys)) || n == 0 && uncertain
		uncertain = uncertain || OutcomeOf(err) == Indeterminate
		return err
	})
	return freed, Redact(err, token)
}

// ReleaseDetached frees the keys that have the token, whether or not ctx has ended; see
// RetryDetached.
func (s *Server) ReleaseDetached(ctx context.Context, keys []string, token string) error {
	return Redact(RetryDetached(ctx, Patience, func(ctx context.Context) error {
		_, err := s.scripts.Release(ctx, s.client, gen.ReleaseParams{Locks: keys, Token: token})
		return err
	}), token)
}

// Attached is what Attach has found.
type Attached struct {
	Lost      string        // key that has none of the tokens, so that nothing has changed; "": none
	Sent      clock.Instant // when the call was sent that was answered
	Remaining time.Duration // of the shortest lease from then on; clock.NoExpiry: none of them ends
}

// Attach gives the keys a token in place of the former ones, within Patience and while ctx
// lasts. After an error the keys may have the new token.
func (s *Server) Attach(ctx context.Context, keys []string, token string, former []string) (Attached, error) {
	var a Attached
	err := RetryFor(ctx, Patience, func(ctx context.Context) error {
		a = Attached{Sent: clock.Now()}
		r, err := s.scripts.Attach(ctx, s.client, gen.AttachParams{Locks: keys, Token: token, Former: former})
		if err == nil && r.Position != 0 {
			a.Lost = slot.KeyAt(keys, r.Position)
		}
		a.Remaining = remaining(r.Remaining)
		return err
	})
	return a, Redact(Redact(err, token), former...)
}

// remaining reads what PTTL answers: -1 stands for a key that never expires.
func remaining(left time.Duration) time.Duration {
	if left == -time.Millisecond {
		return clock.NoExpiry
	}
	return max(left, 0)
}
