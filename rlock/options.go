package rlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// NoExpiry as a TTL makes a lock that lasts until it is released: if its holder
// dies, somebody must delete the key. As a remaining time it means the same.
const NoExpiry = clock.NoExpiry

// DefaultTTL is the lease of a lock whose caller names none.
const DefaultTTL = 10 * time.Second

// Option sets one property of the lock that a call is about. It holds for that call and
// goes before the default of the Locker.
type Option interface{ forCall(*settings) error }

// LockerOption sets one property of a Locker, or a default for all of its locks. New and
// Open take it.
type LockerOption interface{ forLocker(*settings) error }

// SharedOption is both: New and Open take it as a default for every lock of the Locker, a
// call takes it for that call. Options that are on or off take a bool, so that a call can
// undo a default.
type SharedOption interface {
	Option
	LockerOption
}

type (
	callOption   func(*settings) error
	lockerOption func(*settings) error
	sharedOption func(*settings) error
)

func (o callOption) forCall(s *settings) error     { return o(s) }
func (o lockerOption) forLocker(s *settings) error { return o(s) }
func (o sharedOption) forCall(s *settings) error   { return o(s) }
func (o sharedOption) forLocker(s *settings) error { return o(s) }

// settings are what options set. A call without options uses its Locker's, so
// they are not changed once a Locker has them.
type settings struct {
	ttl           time.Duration
	retry         Retry
	token         string
	prefix        string
	autoExtend    *bool  // nil: as the method does by default
	given         chosen // in the same list of options
	unfenced      bool
	uniqueToken   bool
	crossSlot     bool
	permits       int // 0: one
	owner         string
	atLeast       time.Duration
	turn          time.Duration // of a Locker only
	cacheTTL      time.Duration
	invalidations *Invalidations // of a Locker only
	observer      Observer
}

// chosen says which options a list has.
type chosen struct {
	ttl, autoExtend bool
	token, owner    bool
}

var defaults = settings{
	ttl:      DefaultTTL,
	retry:    DefaultRetry(),
	cacheTTL: time.Minute,
	turn:     DefaultTurn,
}

// WithTTL sets the lease: how long a lock lasts unless it is extended. It is a
// whole number of milliseconds, or NoExpiry. The default is DefaultTTL. A lease
// shorter than a few round trips to the server can hardly be held: the acquisition
// then fails with ErrExpired. A lock that another holder of this process hands on may come
// with a part of its lease already over: up to a hundredth, at most 100 ms; or up to half,
// if the lease is extended automatically. A lock that another process passes on counts its lease
// from the waiter's last heartbeat: up to a tenth may be over, at most a second; or up to
// half. Lock.Deadline tells when it ends.
func WithTTL(ttl time.Duration) SharedOption {
	return sharedOption(func(s *settings) error {
		s.ttl = ttl
		s.given.ttl = true
		return checkTTL(ttl)
	})
}

// WithRetry sets how Acquire, AcquireAll, Do, DoAll and WaitFree wait for a held lock.
// Without it they wait as DefaultRetry says.
func WithRetry(r Retry) SharedOption {
	return sharedOption(func(s *settings) error {
		s.retry = r
		switch {
		case r.wrong != "":
			return invalid("WithRetry", r.wrong)
		case r.delay == nil:
			return invalid("WithRetry", "the policy is empty; start from Fixed, Exponential or RetryFunc")
		}
		return nil
	})
}

// WithToken sets the owner token of one call, in place of a new UUID. Whoever
// has the same token owns the same lock: a second call with it is answered
// "acquired" and, where it asks for a longer lease, prolongs it. It is compared
// whole. It is for a call only: all locks of a Locker with one token would own each other.
//
// Several handles may have the same token at a time. Each of them then owns the whole lock:
// the first Release frees it for all of them, and a Detach followed by an Attach takes it
// from the others, who learn of that as of any loss. Extend refuses to shorten the lease,
// because another handle may count on it. Do not acquire with the token again once Release
// was called for it: the network may have delayed a copy of that Release, which would then
// free the new lock.
//
// If the reply to an acquisition with a token of the caller's is lost, rlock releases
// nothing in the background, because another owner may be using the lock by then. Acquire
// it again with the token, which confirms it, or leave it to its lease.
func WithToken(token string) Option {
	return callOption(func(s *settings) error {
		s.token = token
		s.given.token = true
		if token == "" {
			return invalid("WithToken", "the token is empty; leave the option out for a new UUID")
		}
		if strings.HasPrefix(token, remote.OwnPrefix) {
			return invalid("WithToken", "tokens that start with "+remote.OwnPrefix+" belong to shared locks; choose another")
		}
		return nil
	})
}

// WithPrefix puts prefix in front of every key. Without it a key is used as it
// is, so that other lock libraries see the same one.
func WithPrefix(prefix string) LockerOption {
	return lockerOption(func(s *settings) error {
		s.prefix = prefix
		return nil
	})
}

// WithAutoExtend says whether the Locker extends the lease until the lock is released or
// lost. It does so when a third of the lease is over, or a little earlier (after a sixth at
// the soonest), together with other locks that are due. Do, DoAll, TryDo and TryDoAll extend
// by default, the other methods do not. A lock that never expires has no lease to extend.
func WithAutoExtend(on bool) SharedOption {
	return sharedOption(func(s *settings) error {
		s.autoExtend = &on
		s.given.autoExtend = true
		return nil
	})
}

// WithFence says whether the lock has a fence, which is the default. Without one
// Lock.Fence is 0, no counter key (rlock:fence:{…}, whatever the prefix) is used,
// and an acquisition costs the server less. While a slot of a cluster moves to another
// node, a free lock with a fence cannot be taken, as its key and the counter are not in
// the same place: TryAcquire then says TRYAGAIN, and Acquire waits for it.
func WithFence(on bool) SharedOption {
	return sharedOption(func(s *settings) error {
		s.unfenced = !on
		return nil
	})
}

// WithUniqueToken gives the lock a token that no other holder has before or after it (see
// Lock.Token). Those who read the key, as Inspect and ForceRelease do, can then tell the holders
// apart. It costs a command at each hand-over within a process, and two for each reader, who then
// shares nothing with other readers (see AcquireShared).
func WithUniqueToken(on bool) SharedOption {
	return sharedOption(func(s *settings) error {
		s.uniqueToken = on
		return nil
	})
}

// DefaultTurn is how long a process keeps a lock to itself unless WithTurn says otherwise.
const DefaultTurn = 10 * time.Millisecond

// WithTurn sets the turn: for how long a process hands a lock over from one of its own callers to
// the next while another process waits for the lock. When the turn is over, the process that waits
// first gets the lock, and this process waits behind all others. While no other process waits, a
// turn does not end. A long turn makes hand-overs fast, a short one lets other processes wait
// for less time. With 0, every Release passes the lock to another process if one waits. It is also for
// how long readers who come have what another reader of the process has got (see AcquireShared).
func WithTurn(turn time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.turn = turn
		if turn < 0 {
			return invalid("WithTurn", "want 0 or more")
		}
		return nil
	})
}

// WithCacheTTL bounds how long Check may answer from the client-side cache when
// the server's message that the key changed does not arrive. The default is one
// minute.
func WithCacheTTL(ttl time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.cacheTTL = ttl
		if ttl < time.Millisecond {
			return invalid("WithCacheTTL", fmt.Sprintf("%v is below 1ms", ttl))
		}
		return nil
	})
}

// WithInvalidations gives a Locker the Invalidations of its client, so that a lock that was lost,
// and a key that is free without a grant, are noticed at once. It is for New, whose caller has
// given the Invalidations to the client, and for Open, which gives it to the client itself.
func WithInvalidations(h *Invalidations) LockerOption {
	return lockerOption(func(s *settings) error {
		s.invalidations = h
		if h == nil {
			return invalid("WithInvalidations", "it is nil; use NewInvalidations")
		}
		return nil
	})
}

// WithCrossSlot lets AcquireAll, TryAcquireAll and DoAll take keys of several
// slots of a Redis Cluster, which no script can take at one instant. It gives up
// some of what a set has otherwise:
//
//   - The keys are taken slot by slot, in the order of slots, which is the same for
//     everybody: overlapping sets cannot deadlock. When another holds a key, the
//     acquisition frees at once what it has taken, and waits for that key while it holds
//     none. So others may see keys held for a moment by an acquisition that then fails.
//     If it has waited for 2 seconds, it keeps what it gets, as AcquireAll says, slot by slot.
//   - The leases of the slots begin one after the other. The Deadline is that of the
//     first.
//   - Extend, Release and Verify go to each slot by itself, at about the same time.
//     Where one fails, others may have done it: a failed Extend leaves keys with
//     leases of different lengths, and counts on the shorter; a failed Release can be
//     called again, and frees what is left. One key that is lost ends the whole lock,
//     as in any set, but may have been noticed after others were extended.
//   - A process that dies between two slots leaves those that it has taken until
//     their leases end.
//
// The Fence is larger than that of every earlier acquisition of any of the keys,
// and smaller than that of every later one, as in any set. If a node loses its
// data, that rests on the clocks of all nodes of the set rather than on its own.
//
// A call that needs it cannot have WithToken as well: freeing what was taken could
// free what another owner of the token holds. Without a cluster, and for keys of
// one slot, the option changes nothing.
func WithCrossSlot(on bool) SharedOption {
	return sharedOption(func(s *settings) error {
		s.crossSlot = on
		return nil
	})
}

// with returns s with the options of a call applied. Without options it is s itself.
func (s *settings) with(opts []Option) (*settings, error) {
	if len(opts) == 0 {
		return s, nil
	}
	changed := *s
	changed.given = chosen{}
	for _, opt := range opts {
		if opt == nil {
			return nil, errNilOption
		}
		if err := opt.forCall(&changed); err != nil {
			return nil, err
		}
	}
	return &changed, changed.check()
}

// lockerSettings are the defaults of a Locker's locks.
func lockerSettings(opts []LockerOption) (*settings, error) {
	set := defaults
	for _, opt := range opts {
		if opt == nil {
			return nil, errNilOption
		}
		if err := opt.forLocker(&set); err != nil {
			return nil, err
		}
	}
	return &set, set.check()
}

var errNilOption = invalid("option", "it is nil")

// check refuses options that contradict each other. One that contradicts a default
// goes before it.
func (s *settings) check() error {
	if s.given.ttl && s.given.autoExtend && s.ttl == NoExpiry && *s.autoExtend {
		return invalid("WithAutoExtend", "a lock with WithTTL(NoExpiry) has no lease to extend; leave one of the two out")
	}
	if s.given.token && s.given.owner {
		return invalid("WithOwner", "its text is a part of the tokens that the Locker makes; leave it out, or leave WithToken out")
	}
	return s.checkAtLeast()
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
