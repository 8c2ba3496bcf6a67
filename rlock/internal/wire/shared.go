package wire

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Share is what a holder wants of a key that several holders share.
type Share struct {
	Limit   int // how many permits there are; 0: any number, for readers
	Permits int // how many permits the holder wants
}

// OwnPrefix starts the tokens and values of this module that are no plain token. No caller may choose a
// token with this prefix.
const OwnPrefix = "rlock:"

const (
	sharePrefix = OwnPrefix + "share:"
	readers     = "readers"
	permits     = "permits"
)

// NewToken returns a new token for the share. The token says which share it is. So a script that passes the
// key on reads it from the queue, and a release knows that it is no whole key.
func (s Share) NewToken(owner string) string {
	return sharePrefix + strconv.Itoa(s.Limit) + ":" + strconv.Itoa(s.Permits) + ":" + NewToken(owner)
}

func isShare(token string) bool { return strings.HasPrefix(token, sharePrefix) }

// ShareOf returns the share of a token, and the rest of the token. It reports false if the token has
// another form than Share.NewToken makes.
func ShareOf(token string) (s Share, plain string, is bool) {
	rest, is := strings.CutPrefix(token, sharePrefix)
	if !is {
		return Share{}, token, false
	}
	parts := strings.SplitN(rest, ":", 3)
	if len(parts) < 3 {
		return Share{}, token, false
	}
	limit, err1 := strconv.Atoi(parts[0])
	permits, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return Share{}, token, false
	}
	return Share{limit, permits}, parts[2], true
}

// newTokenLike returns a new token of the same kind as a former one.
func newTokenLike(former, owner string) string {
	if s, _, is := ShareOf(former); is {
		return s.NewToken(owner)
	}
	return NewToken(owner)
}

// SharedValue reads the value of a key that several holders share. phase is their fence. reads reports that
// they are readers, not holders of permits. shared is false for any other value.
func SharedValue(value string) (phase uint64, reads, shared bool) {
	rest, is := strings.CutPrefix(value, OwnPrefix)
	mode, fence, two := strings.Cut(rest, " ")
	if !is || !two || mode != readers && mode != permits {
		return 0, false, false
	}
	phase, err := strconv.ParseUint(fence, 10, 64)
	return phase, mode == readers, err == nil
}

// ReadersValue returns the value of a key that the readers of a phase share.
func ReadersValue(phase uint64) string {
	return OwnPrefix + readers + " " + strconv.FormatUint(phase, 10)
}

// Wants notes that the Claim is for a share of its key.
func (c *Claim) Wants(s Share) { c.needRare().share = s }

// Share returns the share of the Claim. It reports false if the Claim is for whole keys.
func (c *Claim) Share() (Share, bool) {
	if c.rare == nil {
		return Share{}, false
	}
	return c.rare.share, c.rare.share != Share{}
}

// NewToken returns a new token for the share or the keys of the Claim.
func (c *Claim) NewToken(owner string) string {
	if s, is := c.Share(); is {
		return s.NewToken(owner)
	}
	return NewToken(owner)
}

// IsShare reports whether the Claim is for a share of its key.
func (c *Claim) IsShare() bool { _, is := c.Share(); return is }

// Sharer is one of the holders who share a key.
type Sharer struct {
	Token string        // says how many permits the holder has
	End   clock.Instant // of the lease, as in Holder
}

// Waiter is a process that waits in the queue of a key.
type Waiter struct {
	Token string
	Since time.Time // when the process joined, by the clock of the server
}

// Seen is what the server says of a key, of its sharers and of its waiters.
type Seen struct {
	Holder           // its Token is the value of the key
	Phase   uint64   // 0: no holder shares the key
	Reads   bool     // the sharers are readers, not holders of permits
	Sharers []Sharer // in the order in which their leases end
	Waiters []Waiter // in the order of the queue
}

// mostWaiters is the most waiters for which Look asks. That many keep the server busy for less than a
// millisecond.
const mostWaiters = 1000

// Look asks who has a key, who shares it, and who waits for it. If the server refuses all of that, Look
// asks for less. The server refuses if the user lacks a right, or while the slot moves: then a script runs
// only where all its keys are.
func (s *Server) Look(ctx context.Context, key string) (seen Seen, err error) {
	for _, waiters := range [...]int64{mostWaiters, 0, onlyLock} {
		var less error
		if seen, less = s.calls.look(ctx, key, waiters); less == nil {
			return seen, nil
		}
		err = cmp.Or(err, less)
		if !Forbidden(less) && !movesNow(less) {
			return Seen{}, less
		}
	}
	return Seen{}, err
}

// onlyLock is the number of waiters for a call that names only the key of the lock.
const onlyLock = -1

// look asks who has a key, who shares it, and for up to waiters places in its queue.
func (s calls) look(ctx context.Context, key string, waiters int64) (Seen, error) {
	names := slot.NamesOf(key)
	keys := []string{key, names.Holders, names.Queue}[:min(waiters, 1)+2]
	var (
		r    gen.InspectResult
		sent clock.Instant
	)
	err := RetryTimes(ctx, Attempts, func(ctx context.Context) (err error) {
		sent = clock.Now()
		r, err = s.scripts.Inspect(ctx, s.client, gen.InspectParams{Keys: keys, Waiters: waiters})
		return err
	})
	one, err := holders([]string{key}, r, sent, err)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Holder: one[0]}
	for reply := r.Waiting; len(reply) > 1; reply = reply[2:] {
		if score, wrong := strconv.ParseFloat(reply[1], 64); wrong == nil {
			seen.Waiters = append(seen.Waiters, Waiter{reply[0], time.UnixMicro(int64(score))})
		}
	}
	if !seen.Held {
		return seen, nil
	}
	seen.Phase, seen.Reads, _ = SharedValue(seen.Token)
	for i, member := range r.Members {
		fields := strings.SplitN(member, " ", 3)
		if len(fields) < 3 {
			return Seen{}, &redislua.ReplyError{Script: "Inspect", Reason: errors.New("has a holder without a token")}
		}
		seen.Sharers = append(seen.Sharers, Sharer{fields[2], sent.After(remaining(r.Left[i]))})
	}
	if n := len(seen.Sharers); n > 0 {
		seen.End = seen.Sharers[n-1].End // the key may stay for longer
	}
	return seen, nil
}

// holderOf returns what the server says of a share. The Token is the one of tokens that has the share. It
// is empty if none has.
func (s *Server) holderOf(ctx context.Context, c *Claim, tokens []string) (Holder, error) {
	found, err := s.calls.look(ctx, c.key[0], 0)
	if err != nil {
		return Holder{}, err
	}
	h := Holder{Key: c.key[0], Held: found.Held, End: found.End}
	for _, sharer := range found.Sharers {
		for _, token := range tokens {
			if sharer.Token == token {
				h.Token, h.End = cmp.Or(h.Token, token), sharer.End
			}
		}
	}
	return h, nil
}
