package rlock

import (
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// NoExpiry as a TTL makes a lock that lasts until it is released: if its holder
// dies, somebody must delete the key. As a remaining time it means the same.
const NoExpiry = clock.NoExpiry

// DefaultTTL is the lease of a lock whose caller names none.
const DefaultTTL = 10 * time.Second

// Option sets one property of a lock. Given to New or Open it is a default for
// every lock of the Locker; given to a call it holds for that call. A few are for a
// Locker only, and say so: a call refuses them.
type Option func(*settings) error

// settings are what options set. A call without options uses its Locker's, so
// they are not changed once a Locker has them.
type settings struct {
	ttl         time.Duration
	retry       Retry
	token       string
	prefix      string
	autoExtend  *bool  // nil: as the method does by default
	given       chosen // in the same list of options
	unfenced    bool
	uniqueToken bool
	slotGroups  bool
	owner       string
	turnMost    int           // of a Locker only
	turnTime    time.Duration // of a Locker only
	cacheTTL    time.Duration
	hook        *Hook // of a Locker only
	observer    Observer
}

// chosen says which options a list has.
type chosen struct {
	ttl, autoExtend      bool
	token, owner, prefix bool
	ofLocker             string // one that is for New and Open only
}

var defaults = settings{
	ttl:      DefaultTTL,
	retry:    patient(Exponential(5*time.Millisecond, 250*time.Millisecond)),
	cacheTTL: time.Minute,
	turnMost: DefaultTurnCount,
	turnTime: DefaultTurnTime,
}

func patient(r Retry) Retry {
	r.patient = true
	return r
}

// WithTTL sets the lease: how long a lock lasts unless it is extended. It is a
// whole number of milliseconds, or NoExpiry. The default is DefaultTTL. A lease
// shorter than a few round trips to the server can hardly be held: the acquisition
// then fails with ErrExpired. Where another holder of this process hands the lock on,
// up to a hundredth of its lease may be over, at most 100 ms, or half of one that is
// extended anyway: Lock.Deadline tells.
func WithTTL(ttl time.Duration) Option {
	return func(s *settings) error {
		s.ttl = ttl
		s.given.ttl = true
		return checkTTL(ttl)
	}
}

// WithRetry sets how Acquire, AcquireAll, Do and DoAll wait for a held lock. By
// default they wait for the server to tell that the key has changed, and poll as
// Exponential(5ms, 250ms) does where it cannot (see Hook); only the context ends
// the waiting.
func WithRetry(r Retry) Option {
	return func(s *settings) error {
		s.retry = r
		switch {
		case r.wrong != "":
			return &ArgumentError{"WithRetry", r.wrong}
		case r.delay == nil:
			return &ArgumentError{"WithRetry", "the policy is empty; start from Fixed, Exponential or RetryFunc"}
		}
		return nil
	}
}

// WithToken sets the owner token of one call, in place of a new UUID. Whoever
// has the same token owns the same lock: a second call with it is answered
// "acquired" and, where it asks for a longer lease, prolongs it. It is compared
// whole. As a Locker's default it is refused, because all its locks would own each
// other.
//
// Several handles may have the same token at a time, and each then owns the whole lock:
// the first Release frees it for all of them, Detach and Attach of one takes it from the
// others, and they learn of that as of any loss. So that none of them counts on a lease
// that another has cut, Extend refuses a shorter one. Once a Release of it has been called, never acquire with the token again: a copy
// of that Release that the network has delayed would free what the token holds by then.
//
// When an acquisition with a token of one's own fails with its reply lost, nothing
// is released in the background, as another owner may be using the lock by then.
// Acquire it again with the token, which confirms it, or leave it to its lease.
func WithToken(token string) Option {
	return func(s *settings) error {
		s.token = token
		s.given.token = true
		if token == "" {
			return &ArgumentError{"WithToken", "the token is empty; leave the option out for a new UUID"}
		}
		return nil
	}
}

// WithPrefix puts prefix in front of every key. Without it a key is used as it
// is, so that other lock libraries see the same one.
func WithPrefix(prefix string) Option {
	return func(s *settings) error {
		s.prefix = prefix
		s.given.prefix = true
		return nil
	}
}

// WithAutoExtend says whether the lease is extended until the lock is released or
// lost: at every third of it, or up to half of that earlier in one call with others
// that are due. Do and DoAll extend by default, the others do not. A lock that
// never expires needs it not.
func WithAutoExtend(on bool) Option {
	return func(s *settings) error {
		s.autoExtend = &on
		s.given.autoExtend = true
		return nil
	}
}

// WithFence says whether the lock has a fence, which is the default. Without one
// Lock.Fence is 0, no counter key (rlock:fence:{…}, whatever the prefix) is used,
// and an acquisition costs the server less. While a slot of a cluster moves to another
// node, a free lock with a fence cannot be taken, as its key and the counter are not in
// the same place: TryAcquire then says TRYAGAIN, and Acquire waits for it.
func WithFence(on bool) Option {
	return func(s *settings) error {
		s.unfenced = !on
		return nil
	}
}

// WithUniqueToken gives the lock a token that no other holder has, before or after,
// also to those who read the key, as Inspect and ForceRelease do. Without it, locks of
// one process may hand on a token that nobody has asked for: see Lock.Token. It costs a
// command at each hand-over.
func WithUniqueToken() Option {
	return func(s *settings) error {
		s.uniqueToken = true
		return nil
	}
}

// How long a process keeps a lock to itself unless WithTurn says otherwise.
const (
	DefaultTurnCount = 100_000
	DefaultTurnTime  = 10 * time.Millisecond
)

// WithTurn bounds how often in a row, and for how long, a process hands a lock over
// from one of its own to the next without freeing it: most times, and until longest
// has passed since the first of them. Then it frees the lock and lets other processes
// go first. Long turns are fast, short ones fair; with 0 every release frees the
// lock. It is for New and Open.
func WithTurn(most int, longest time.Duration) Option {
	return func(s *settings) error {
		s.turnMost, s.turnTime = most, longest
		s.given.ofLocker = "WithTurn"
		if most < 0 || longest < 0 {
			return &ArgumentError{"WithTurn", "want 0 or more of both"}
		}
		return nil
	}
}

// WithCacheTTL bounds how long Check may answer from the client-side cache when
// the server's message that the key changed does not arrive. The default is one
// minute. It is for New and Open.
func WithCacheTTL(ttl time.Duration) Option {
	return func(s *settings) error {
		s.cacheTTL = ttl
		s.given.ofLocker = "WithCacheTTL"
		if ttl < time.Millisecond {
			return &ArgumentError{"WithCacheTTL", fmt.Sprintf("%v is below 1ms", ttl)}
		}
		return nil
	}
}

// WithHook gives a Locker the Hook of its client, so that waiting needs no polling
// and a loss is noticed at once. It is for New, whose caller has given the Hook to the
// client, and for Open, which gives it to the client itself.
func WithHook(h *Hook) Option {
	return func(s *settings) error {
		s.hook = h
		s.given.ofLocker = "WithHook"
		if h == nil {
			return &ArgumentError{"WithHook", "it is nil; use NewHook"}
		}
		return nil
	}
}

func checkTTL(ttl time.Duration) error {
	switch {
	case ttl == NoExpiry:
		return nil
	case ttl < time.Millisecond:
		return &ArgumentError{"TTL", fmt.Sprintf("%v is below 1ms; for a lock that never expires say NoExpiry", ttl)}
	case ttl%time.Millisecond != 0:
		return &ArgumentError{"TTL", fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", ttl)}
	}
	return nil
}

// with returns s with the options applied. Without options it is s itself.
func (s *settings) with(opts []Option) (*settings, error) {
	if len(opts) == 0 {
		return s, nil
	}
	changed := *s
	changed.given = chosen{}
	for _, opt := range opts {
		if opt == nil {
			return nil, &ArgumentError{"option", "it is nil"}
		}
		if err := opt(&changed); err != nil {
			return nil, err
		}
	}
	return &changed, changed.check()
}

// check refuses options that contradict each other. One that contradicts a default
// goes before it.
func (s *settings) check() error {
	if s.given.ttl && s.given.autoExtend && s.ttl == NoExpiry && *s.autoExtend {
		return &ArgumentError{"WithAutoExtend", "a lock with WithTTL(NoExpiry) has no lease to extend; leave one of the two out"}
	}
	if s.given.token && s.given.owner {
		return &ArgumentError{"WithOwner", "its text is a part of the tokens that the Locker makes; leave it out, or leave WithToken out"}
	}
	return nil
}

// extends reports whether a lock is extended, where byDefault is the method's habit.
func (s *settings) extends(byDefault bool) bool {
	if s.ttl == NoExpiry {
		return false
	}
	if s.autoExtend != nil {
		return *s.autoExtend
	}
	return byDefault
}

// ttlParam is the TTL as scripts take it: 0 stands for none.
func ttlParam(ttl time.Duration) time.Duration {
	if ttl == NoExpiry {
		return 0
	}
	return ttl
}
