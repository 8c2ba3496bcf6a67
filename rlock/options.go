package rlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// NoExpiry as a TTL makes a lock that lasts until it is released: if its holder
// dies, somebody must delete the key. As a remaining time it means the same.
const NoExpiry = clock.NoExpiry

// DefaultTTL is the lease of a lock whose caller names none.
const DefaultTTL = 10 * time.Second

// Option sets one property of the lock that a call is about. It overrides the default of the Locker.
type Option interface{ forCall(*settings) error }

// LockerOption sets one property of a Locker, or a default for all of its locks, in New and Open.
type LockerOption interface{ forLocker(*settings) error }

// CommonOption is both: a default in New and Open, or the choice of one call. Options that are on or
// off take a bool, so that a call can undo a default.
type CommonOption interface {
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
	owner         string
	minHold       time.Duration
	maxHold       time.Duration // 0: no limit
	stopBefore    time.Duration
	turn          time.Duration // of a Locker only
	barging       time.Duration // of a Locker only
	queue         wire.Mode     // of a Locker only
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

// WithTTL sets the lease: how long the lock lasts unless it is extended, in whole milliseconds, or NoExpiry.
// The default is DefaultTTL. If it is shorter than a few round trips, acquisitions fail with ErrExpired.
//
// A lock that another holder passes on may have a tenth of its lease behind it, at most a second, and up to
// half if it is extended automatically. Lock.Deadline tells.
func WithTTL(ttl time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.ttl = ttl
		s.given.ttl = true
		return checkTTL(ttl)
	})
}

// WithRetry sets how calls that wait do so, WaitFree and Lead too. Without it they wait as DefaultRetry
// says.
func WithRetry(r Retry) CommonOption {
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

// WithToken sets the owner token of one call, in place of a new UUID. Whoever has the same token owns the
// same lock: a second call with it is granted, and where it asks for a longer lease, prolongs it. The first
// Release frees the lock for all of them, a Detach with an Attach takes it from the others, and Extend
// refuses to shorten the lease.
//
// After a call without an answer rlock frees nothing in the background, because another owner may use the
// lock: acquire it again with the token, or leave it to its lease. Do not acquire with the token again after
// a Release: a copy of that Release that the network has delayed would free the new lock.
func WithToken(token string) Option {
	return callOption(func(s *settings) error {
		s.token = token
		s.given.token = true
		if token == "" {
			return invalid("WithToken", "the token is empty; leave the option out for a new UUID")
		}
		if strings.HasPrefix(token, wire.OwnPrefix) {
			return invalid("WithToken",
				"tokens that start with "+wire.OwnPrefix+" belong to shared locks; choose another")
		}
		return nil
	})
}

// WithPrefix puts prefix in front of every key. Without it a key is used as it
// is, so that other lock libraries see the same one.
func WithPrefix(prefix string) LockerOption {
	return lockerOption(func(s *settings) error { s.prefix = prefix; return nil })
}

// WithAutoExtend says whether the Locker extends the lease, each time that about a third of it is over,
// until the lock is released or lost. Do and its kind do so by default, the other methods do not. A lock
// that never expires has no lease to extend: a list of options with both this and WithTTL(NoExpiry) is
// refused.
func WithAutoExtend(on bool) CommonOption {
	return sharedOption(func(s *settings) error {
		s.autoExtend = &on
		s.given.autoExtend = true
		return nil
	})
}

// WithFence says whether the lock has a fence, which is the default. Without one Lock.Fence is 0, no counter
// key (rlock:fence:{…}, whatever the prefix) is used, and an acquisition costs the server less. While a slot
// of a cluster moves, a free lock with a fence cannot be taken: TryAcquire then says TRYAGAIN, and Acquire
// waits.
func WithFence(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.unfenced = !on; return nil })
}

// WithUniqueToken gives the lock a token that no other holder has before or after it (see Lock.Token), so
// that those who read the key can tell holders apart. It costs a command at each hand-over within a process,
// and two for each reader, who then shares nothing with others. Permits are not handed over then.
func WithUniqueToken(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.uniqueToken = on; return nil })
}

// DefaultTurn is how long a process keeps a lock to itself unless WithTurn says otherwise.
const DefaultTurn = 10 * time.Millisecond

// WithTurn sets the turn: for how long a process serves its own callers, without the server, while another
// process waits. While none does, a turn does not end. It bounds the sharing of readers and the hand-over of
// permits too. A long turn makes hand-overs fast, a short one lets other processes wait less; with 0 every
// Release passes the lock on. The default is DefaultTurn.
func WithTurn(turn time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.turn = turn
		if turn < 0 {
			return invalid("WithTurn", "want 0 or more")
		}
		return nil
	})
}

// WithQueue says how callers wait for what another process has. With true they stand in the queue that the
// server keeps for each key, and a right that the user lacks for it is an error. With false they poll, and
// who comes first gets the lock: for servers and proxies without ZADD or SPUBLISH, and users without the
// rights.
//
// Without the option they stand in the queue until the server refuses that for the lack of a right; then the
// Locker polls, for all keys, until it is closed. Stats.Polling, an EventPolling and Probe tell so.
func WithQueue(on bool) LockerOption {
	return lockerOption(func(s *settings) error {
		s.queue = wire.Polling
		if on {
			s.queue = wire.Queued
		}
		return nil
	})
}

// WithBarging leaves a lock that becomes free to whoever takes it first, for so long at the beginning of
// each second of the server's clock, although processes of rlock wait for it. Those take it after that. It
// is for callers that stand in no queue, such as other libraries: without it they never find a lock free
// that several processes of rlock want all the time.
//
// It is 0, which is the default, to 500 ms, in whole milliseconds, and the same in all Lockers that use the
// keys. Such a caller has the lock within a second if the time is longer than its longest pause, a turn and
// the time for which the lock is held together. It costs up to that share of the acquisitions of a lock that
// is wanted all the time, and nothing of another. A Locker that polls ignores it.
func WithBarging(barging time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.barging = barging
		if barging < 0 || barging > longestBarging || barging%time.Millisecond != 0 {
			return invalid("WithBarging",
				fmt.Sprintf("%v is no whole number of milliseconds from 0 to %v", barging, longestBarging))
		}
		return nil
	})
}

// longestBarging leaves half of the time to those who stand in the queue.
const longestBarging = time.Second / 2

// WithCacheTTL bounds how long Check may answer from the cache if no message comes that the key has changed.
// The default is one minute.
func WithCacheTTL(ttl time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.cacheTTL = ttl
		if ttl < time.Millisecond {
			return invalid("WithCacheTTL", fmt.Sprintf("%v is below 1ms", ttl))
		}
		return nil
	})
}

// WithInvalidations gives a Locker of New the Invalidations that its client has. Open installs them by
// itself.
func WithInvalidations(h *Invalidations) LockerOption {
	return lockerOption(func(s *settings) error {
		s.invalidations = h
		if h == nil || h.hub == nil {
			return invalid("WithInvalidations", "it is nil or the zero Invalidations; use NewInvalidations")
		}
		return nil
	})
}

// WithCrossSlot lets sets (AcquireAll and its kind) have keys of several slots of a Redis Cluster, which no
// script can take at one instant. It gives up some of what a set has otherwise:
//
//   - The keys are taken slot by slot, in the same order by everybody, so sets cannot deadlock. An
//     acquisition that finds one held frees what it has taken and waits, so others may see keys held for a
//     moment.
//   - The leases begin one after the other. Deadline is that of the first.
//   - Extend, Release and Verify go to each slot by itself, and may fail at some. One lost key ends the
//     whole lock.
//   - A process that dies in between leaves what it has taken to its lease.
//   - If a node loses its data, the Fence rests on the clocks of all nodes of the set.
//
// WithToken is refused, because freeing what was taken could free what another owner of the token holds.
func WithCrossSlot(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.crossSlot = on; return nil })
}

// WithMaxHold limits how long the lock is held: it is extended up to d after it was acquired and no further.
// Then it ends with ErrMaxHold, and its keys are freed, but with a token of the caller's (WithToken) left to
// their lease. So a function that hangs does not keep others out for ever. A d that is shorter than the
// lease is refused, and so is WithTTL(NoExpiry) with it. 0, the default, is no limit.
func WithMaxHold(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.maxHold = d
		if d < 0 {
			return invalid("WithMaxHold", "want 0 or more")
		}
		return nil
	})
}

// WithStopBefore has Lock.Context, and so the context of the function of Do, Lead and their kind, end d
// before the lease does, with ErrLeaseEnding as the cause: for work that needs a while to stop. If it stops
// within d, no other holder begins before. The lock is held until its lease ends; an extension that comes
// through in that time does not bring the context back. It does not help if somebody deletes the key, or
// frees it by force: the Context ends at once then, and the next holder may have begun.
//
// d is a quarter of the lease at most, so that extensions have room to be late; a shorter lease is refused,
// by Extend too. The default is 0.
func WithStopBefore(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.stopBefore = d
		if d < 0 {
			return invalid("WithStopBefore", "want 0 or more")
		}
		return nil
	})
}

// room is the part of a lease that WithStopBefore may have. Extensions begin when a third of the lease is
// over, and a holder that gets a lease from another may find half of it over.
const room = 4

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

// check refuses options that contradict each other. One that contradicts a default overrides it.
func (s *settings) check() error {
	if s.given.ttl && s.given.autoExtend && s.ttl == NoExpiry && *s.autoExtend {
		return invalid("WithAutoExtend",
			"a lock with WithTTL(NoExpiry) has no lease to extend; leave one of the two out")
	}
	if s.given.token && s.given.owner {
		return invalid("WithOwner", "its text is a part of the tokens that the Locker makes; leave it out, or "+
			"leave WithToken out")
	}
	if err := s.checkLimits(s.ttl); err != nil {
		return err
	}
	return s.checkMinHold()
}

// checkLimits refuses a lease of ttl that does not fit WithMaxHold and WithStopBefore.
func (s *settings) checkLimits(ttl time.Duration) error {
	switch {
	case ttl == NoExpiry && s.maxHold > 0:
		return invalid("WithMaxHold",
			"a lock WithTTL(NoExpiry) stays if its process dies; use WithTTL with the limit, or with less")
	case ttl == NoExpiry: // its context ends with the lock
	case s.maxHold > 0 && s.maxHold < ttl:
		return invalid("WithMaxHold", fmt.Sprintf(
			"%v is shorter than the lease of %v; use a shorter lease", s.maxHold, ttl))
	case s.stopBefore > ttl/room:
		return invalid("WithStopBefore", fmt.Sprintf(
			"a lease of %v leaves no room for %v; use a lease of %v or more", ttl,
			s.stopBefore, room*s.stopBefore))
	}
	return nil
}

// extends reports whether a lock is extended while its lease ends, where byDefault is the method's habit.
func (s *settings) extends(byDefault bool) bool {
	if s.autoExtend != nil {
		return *s.autoExtend
	}
	return byDefault
}

// checkTTL refuses a TTL that no lease can have.
func checkTTL(ttl time.Duration) error { return refused(argument.TTL(ttl)) }

// redisKey returns the key as Redis has it.
func (s *settings) redisKey(key string) (string, error) {
	full, wrong := argument.Key(s.prefix, key)
	return full, refused(wrong)
}

// WithObserver tells o what happens to the locks of the Locker, or to the lock of one call; that of a call
// replaces that of its Locker. The last event of a lock comes on time even if the program has forgotten it.
// Without an observer, events cost nothing.
func WithObserver(o Observer) CommonOption {
	return sharedOption(func(s *settings) error {
		s.observer = o
		if !isObserver(o) {
			return invalid("WithObserver", "it is nil; leave the option out to observe nothing")
		}
		return nil
	})
}

// WithOwner has the holder say who it is to those who ask why a key is locked (State.Owner): 1 to 256 bytes
// of printable UTF-8, no secret. It is a part of the token, so it costs no command and no key. A call cannot
// have it together with WithToken, which overrides a default of the Locker.
func WithOwner(text string) CommonOption {
	return sharedOption(func(s *settings) error {
		s.owner = text
		s.given.owner = true
		if wrong := wire.WrongOwner(text); wrong != "" {
			return invalid("WithOwner", wrong)
		}
		return nil
	})
}

// DefaultOwner returns a text for WithOwner that tells the host, the process and
// the program: "web-3 pid 4711 importer".
func DefaultOwner() string { return wire.ThisProcess() }

// WithMinHold keeps others out for at least d from when the lock was granted, even if it is released
// earlier, and whether or not the work has failed. So a job that several machines start at about the same
// time runs once, although it may take less time than their clocks differ by:
//
//	ran, err := locker.TryDo(ctx, "nightly report", report,
//		rlock.WithTTL(10*time.Minute), rlock.WithMinHold(10*time.Minute))
//
// For an hourly job, choose a d well below an hour, and above the time by which the clocks may differ. d is
// in whole milliseconds, and a lease that is shorter is refused, by Extend too, so that a process that dies
// keeps others out as well.
//
// For its holder the lock ends at the Release, which does not wait: it leaves the keys another token, and a
// lease that ends when d is over. Those who wait keep their order. Only force ends it earlier (package
// rlockadmin). If fn of Do is not called because its context has ended, the keys are freed at once. Shares
// cannot have it. The default is 0.
func WithMinHold(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.minHold = d
		switch {
		case d == NoExpiry:
			return invalid("WithMinHold", "it must end; "+
				"a lock that lasts for ever is one with WithTTL(NoExpiry) that nobody releases")
		case d < 0:
			return invalid("WithMinHold", "want 0 or more")
		case d%time.Millisecond != 0:
			return invalid("WithMinHold",
				fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", d))
		}
		return nil
	})
}

// checkMinHold refuses a lease that would end before WithMinHold is over.
func (s *settings) checkMinHold() error {
	if s.ttl < s.minHold {
		return invalid("WithMinHold", fmt.Sprintf("%v is longer than the lease of %v, "+
			"which is all that is left if the process dies; use a WithTTL of %v or more",
			s.minHold, s.ttl, s.minHold))
	}
	return nil
}
