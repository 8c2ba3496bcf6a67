package rlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// NoExpiry as a TTL makes a lock without a lease: it lasts until its holder releases it. If the holder dies,
// an operator must delete the key. As a remaining time, NoExpiry means that the lock never expires.
const NoExpiry = clock.NoExpiry

// DefaultTTL is the lease of a lock without WithTTL.
const DefaultTTL = 10 * time.Second

// Option sets one property of the lock of one call. It overrides the default of the Locker.
type Option interface{ forCall(*settings) error }

// LockerOption sets one property of a Locker, or a default for all its locks. New and Open take it.
type LockerOption interface{ forLocker(*settings) error }

// CommonOption is an Option and a LockerOption: a default in New and Open, or the choice of one call. An
// option that is on or off takes a bool, so a call can undo a default.
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

// settings are what options set. A call without options uses the settings of its Locker, so no code changes
// them after the Locker has them.
type settings struct {
	ttl           time.Duration
	retry         Retry
	token         string
	prefix        string
	autoExtend    *bool  // nil: the default of the method
	given         chosen // what this list of options sets
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

// WithTTL sets the lease: the time that the lock lasts unless it is extended. ttl is in whole milliseconds,
// or NoExpiry. The default is DefaultTTL. If ttl is shorter than a few round trips, acquisitions fail with
// ErrExpired.
//
// After a hand-over, a tenth of the lease may be over already, but at most a second. With automatic extension
// up to half of the lease may be over. Lock.Deadline returns the end of the lease.
func WithTTL(ttl time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.ttl = ttl
		s.given.ttl = true
		return checkTTL(ttl)
	})
}

// WithRetry sets the retry policy of calls that wait, also of WaitFree and Lead. The default is DefaultRetry.
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

// WithToken sets the token of one call, in place of a new UUID. All callers with the same token own the same
// lock:
//
//   - The server grants a second call with the token. If that call asks for a longer lease, the lease gets
//     longer.
//   - The first Release frees the lock for all of them.
//   - A Detach and an Attach take the lock from the others.
//   - Extend refuses to shorten the lease.
//
// After a call without an answer, rlock frees nothing in the background, because another owner may use the
// lock. Acquire the lock again with the token, or leave the lock to its lease. Do not acquire again with the
// token after a Release: the network may delay a copy of the Release, and that copy would free the new lock.
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

// WithPrefix puts prefix in front of every key. Without it rlock uses each key as it is, so other lock
// libraries see the same key.
func WithPrefix(prefix string) LockerOption {
	return lockerOption(func(s *settings) error { s.prefix = prefix; return nil })
}

// WithAutoExtend says whether the Locker extends the lease automatically, until the lock is released or lost.
// The Locker extends each time that about a third of the lease is over. Do, Lead and their variants extend by
// default; other methods do not. A list of options with both WithAutoExtend(true) and WithTTL(NoExpiry) is
// refused, because there is no lease to extend.
func WithAutoExtend(on bool) CommonOption {
	return sharedOption(func(s *settings) error {
		s.autoExtend = &on
		s.given.autoExtend = true
		return nil
	})
}

// WithFence says whether the lock has a fence. The default is true. With false, Lock.Fence returns 0, and an
// acquisition costs the server less. Such a lock uses no counter key. The name of that key is
// rlock:fence:{…}, whatever the prefix is.
//
// While a slot of a cluster moves, no caller can take a free lock with a fence. TryAcquire then fails with
// TRYAGAIN, and Acquire waits.
func WithFence(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.unfenced = !on; return nil })
}

// WithUniqueToken gives the lock a token that no other holder has before or after it (see Lock.Token).
// Programs that read the key can then tell holders apart. It costs one command for each hand-over within a
// process. A reader pays two commands and shares nothing with other readers. There is no hand-over of
// permits.
func WithUniqueToken(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.uniqueToken = on; return nil })
}

// DefaultTurn is the turn of a Locker without WithTurn.
const DefaultTurn = 10 * time.Millisecond

// WithTurn sets the turn: how long a process serves its own callers without the server while another process
// waits. While no other process waits, the turn does not end. The turn also limits how long new readers may
// join the share of their process, and how long Release may hand permits to callers of its process.
//
// A long turn makes hand-overs fast. A short turn makes other processes wait less. With 0 every Release
// passes the lock on. The default is DefaultTurn.
func WithTurn(turn time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.turn = turn
		if turn < 0 {
			return invalid("WithTurn", "want 0 or more")
		}
		return nil
	})
}

// WithQueue says how callers wait for a key that another process has:
//
//   - true: callers wait in the queue that the server keeps for each key. If the user lacks a right for the
//     queue, calls fail.
//   - false: callers poll, and the first to come gets the lock. This is for servers and proxies without ZADD
//     or SPUBLISH, and for users without the rights.
//   - Without the option, callers wait in the queue. If the server refuses that because the user lacks a
//     right, the Locker polls from then on, for all keys, until it is closed. Stats.Polling, an EventPolling
//     and Probe report that.
func WithQueue(on bool) LockerOption {
	return lockerOption(func(s *settings) error {
		s.queue = wire.Polling
		if on {
			s.queue = wire.Queued
		}
		return nil
	})
}

// WithBarging reserves the first part of each second of the server's clock for callers outside the queue,
// such as other libraries. In that time a released lock is free for the first caller to come. After that time
// the waiters of rlock take the lock. Without the option, a caller outside the queue never gets a key that
// several processes of rlock want all the time.
//
// barging is the length of that part: from 0, the default, to 500 ms, in whole milliseconds. All Lockers of
// the same keys need the same value. With a large enough barging, a caller outside the queue gets the lock
// within a second. barging must then be longer than the sum of that caller's longest pause, one turn and one
// hold.
//
// If rlock callers want a lock all the time, barging costs them acquisitions: 300 ms of each second cost
// about a third. It costs other locks
// nothing. A Locker that polls ignores it.
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

// longestBarging leaves half of the time to the waiters in the queue.
const longestBarging = time.Second / 2

// WithCacheTTL limits how long Check may answer from the cache while no invalidation comes for the key. The
// default is one minute, the minimum 1 ms.
func WithCacheTTL(ttl time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.cacheTTL = ttl
		if ttl < time.Millisecond {
			return invalid("WithCacheTTL", fmt.Sprintf("%v is below 1ms", ttl))
		}
		return nil
	})
}

// WithInvalidations gives a Locker of New the Invalidations of its client. Open installs Invalidations by
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

// WithCrossSlot lets a set (see AcquireAll) have keys of several slots of a Redis Cluster. No script can take
// these keys at one instant, so the set gives up some promises:
//
//   - The Locker takes the keys slot by slot. All Lockers use the same order, so sets cannot deadlock. If one
//     key is held, the acquisition frees the keys that it has taken, and waits. Other callers may see these
//     keys held for a moment.
//   - The leases begin one after the other. Deadline is the deadline of the first lease.
//   - Extend, Release and Verify call each slot separately, and may fail at some slots. One lost key ends the
//     whole lock.
//   - A process that dies in between leaves the taken keys to their lease.
//   - If a node loses its data, the fence relies on the clocks of all nodes of the set.
//
// A set of several slots cannot have WithToken: freeing a taken key could free the lock of another owner of
// the token.
func WithCrossSlot(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.crossSlot = on; return nil })
}

// WithMaxHold limits how long the lock is held, so a function that hangs does not keep others out for ever.
// Extensions end d after the acquisition. The lock then ends with ErrMaxHold, and the Locker frees its keys.
// Keys with a token of WithToken stay until their lease ends. d must not be shorter than the lease, and
// WithTTL(NoExpiry) is refused. The default, 0, is no limit.
func WithMaxHold(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.maxHold = d
		if d < 0 {
			return invalid("WithMaxHold", "want 0 or more")
		}
		return nil
	})
}

// WithStopBefore ends Lock.Context d before the lease ends, with ErrLeaseEnding as the cause. It also ends
// the context of the function of Do, Lead and their variants. It is for work that needs time to stop: if the
// work stops within d, no other holder begins before the work has stopped. The lock stays held until its
// lease ends. A later extension does not revive the context.
//
// If an operator deletes the key, or frees it with ForceRelease, the Context ends at once. The next holder
// may then have begun.
//
// d is at most a quarter of the lease. So the context does not end when an extension comes a little late. A
// lease shorter than four times d is refused, also by Extend. The default is 0.
func WithStopBefore(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.stopBefore = d
		if d < 0 {
			return invalid("WithStopBefore", "want 0 or more")
		}
		return nil
	})
}

// room is the divisor of the lease that limits WithStopBefore. Extensions begin when a third of the lease is
// over. After a hand-over, half of the lease may be over.
const room = 4

// with returns s with the options of a call. Without options it returns s itself.
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

// lockerSettings returns the defaults for the locks of a Locker.
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

// check refuses options that contradict each other. An option of a call overrides a default that contradicts
// it.
func (s *settings) check() error {
	if s.given.ttl && s.given.autoExtend && s.ttl == NoExpiry && *s.autoExtend {
		return invalid("WithAutoExtend",
			"a lock with WithTTL(NoExpiry) has no lease to extend; leave one of the two out")
	}
	if s.given.token && s.given.owner {
		return invalid("WithOwner", "its text is a part of a token that the Locker makes; leave out WithOwner or "+
			"WithToken")
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
			"a lock WithTTL(NoExpiry) stays if its process dies; use a WithTTL of the limit or less")
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

// extends reports whether the Locker extends the lock automatically. byDefault is the default of the method.
func (s *settings) extends(byDefault bool) bool {
	if s.autoExtend != nil {
		return *s.autoExtend
	}
	return byDefault
}

// checkTTL refuses a TTL that no lease can have.
func checkTTL(ttl time.Duration) error { return refused(argument.TTL(ttl)) }

// redisKey returns the key with the prefix.
func (s *settings) redisKey(key string) (string, error) {
	full, wrong := argument.Key(s.prefix, key)
	return full, refused(wrong)
}

// WithObserver tells o each event of the locks of the Locker, or of the lock of one call. The observer of a
// call replaces the observer of the Locker. The last event of a lock comes on time even if the program has no
// reference to the Lock any more. Without an observer, events cost nothing.
func WithObserver(o Observer) CommonOption {
	return sharedOption(func(s *settings) error {
		s.observer = o
		if !isObserver(o) {
			return invalid("WithObserver", "it is nil; leave the option out to observe nothing")
		}
		return nil
	})
}

// WithOwner adds a text to the token that says who the holder is (see State.Owner). The text is 1 to 256
// bytes of printable UTF-8, and no secret. It costs no command and no key. One call cannot have both
// WithOwner and WithToken. WithToken overrides a default WithOwner of the Locker.
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

// DefaultOwner returns a text for WithOwner with the host, the process and the program: "web-3 pid 4711
// importer".
func DefaultOwner() string { return wire.ThisProcess() }

// WithMinHold keeps others out for at least d after the grant, even if the holder releases the lock earlier,
// and whether or not the work fails. So a job that several machines start at about the same time runs once. A
// short job may be over on one machine before the clock of another machine starts it. WithMinHold then still
// keeps the other machine out:
//
//	ran, err := locker.TryDo(ctx, "nightly report", report,
//		rlock.WithTTL(10*time.Minute), rlock.WithMinHold(10*time.Minute))
//
// For an hourly job, choose a d well below an hour. It must be longer than the largest difference between the
// clocks. d is in whole
// milliseconds. A lease shorter than d is refused, also by Extend, so a process that dies keeps others out
// too.
//
// Release ends the lock for its holder and does not wait. It gives the keys another token, and a lease that
// ends when d is over. Waiters keep their order. Only ForceRelease of package rlockadmin frees the keys
// earlier. If the context of Do ends before fn is called, the keys are freed at once. Shares and permits
// cannot have WithMinHold. The default is 0.
func WithMinHold(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.minHold = d
		switch {
		case d == NoExpiry:
			return invalid("WithMinHold", "it must end; "+
				"for a lock without an end, use WithTTL(NoExpiry) and do not release the lock")
		case d < 0:
			return invalid("WithMinHold", "want 0 or more")
		case d%time.Millisecond != 0:
			return invalid("WithMinHold",
				fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", d))
		}
		return nil
	})
}

// checkMinHold refuses a lease that ends before the time of WithMinHold is over.
func (s *settings) checkMinHold() error {
	if s.ttl < s.minHold {
		return invalid("WithMinHold", fmt.Sprintf("%v is longer than the lease of %v, "+
			"and a process that dies leaves only the lease; use a WithTTL of %v or more",
			s.minHold, s.ttl, s.minHold))
	}
	return nil
}
