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

// WithTTL sets the lease: how long a lock lasts unless it is extended. It is a whole number of
// milliseconds, or NoExpiry; the default is DefaultTTL. If it is shorter than a few round trips to the
// server, acquisitions fail with ErrExpired.
//
// A lock that another holder hands or passes on may have up to half of its lease behind it if it is
// extended automatically, and otherwise up to a tenth, at most a second. Lock.Deadline tells.
func WithTTL(ttl time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.ttl = ttl
		s.given.ttl = true
		return checkTTL(ttl)
	})
}

// WithRetry sets how Acquire, AcquireAll, Do, DoAll, Lead, WaitFree and their shared forms wait for a held
// lock. Without it they wait as DefaultRetry says.
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

// WithToken sets the owner token of one call, in place of a new UUID. Whoever has the same token owns
// the same lock: a second call with it is answered "acquired" and, where it asks for a longer lease,
// prolongs it.
//
// Each handle with the token owns the whole lock. The first Release frees it for all of them, and a
// Detach followed by an Attach takes it from the others, who learn of that as of any loss. Extend
// refuses to shorten the lease. Do not acquire with the token again after a Release: a copy of that
// Release that the network has delayed would free the new lock.
//
// If an acquisition or an Extend gets no answer, rlock releases nothing in the background, because
// another owner may be using the lock. Acquire it again with the token, or leave it to its lease.
func WithToken(token string) Option {
	return callOption(func(s *settings) error {
		s.token = token
		s.given.token = true
		if token == "" {
			return invalid("WithToken", "the token is empty; leave the option out for a new UUID")
		}
		if strings.HasPrefix(token, wire.OwnPrefix) {
			return invalid("WithToken", "tokens that start with "+wire.OwnPrefix+" belong to shared locks; choose another")
		}
		return nil
	})
}

// WithPrefix puts prefix in front of every key. Without it a key is used as it
// is, so that other lock libraries see the same one.
func WithPrefix(prefix string) LockerOption {
	return lockerOption(func(s *settings) error { s.prefix = prefix; return nil })
}

// WithAutoExtend says whether the Locker extends the lease until the lock is released or lost, each
// time that about a third of it is over. Do and its kind extend by default, the other methods do not. A
// lock that never expires has no lease to extend, until Extend gives it one: a list of options with both
// WithTTL(NoExpiry) and WithAutoExtend(true) is refused.
func WithAutoExtend(on bool) CommonOption {
	return sharedOption(func(s *settings) error {
		s.autoExtend = &on
		s.given.autoExtend = true
		return nil
	})
}

// WithFence says whether the lock has a fence, which is the default. Without one Lock.Fence is 0, no
// counter key (rlock:fence:{…}, whatever the prefix) is used, and an acquisition costs the server less.
// While a slot of a cluster moves, a free lock with a fence cannot be taken: TryAcquire then says
// TRYAGAIN, and Acquire waits.
func WithFence(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.unfenced = !on; return nil })
}

// WithUniqueToken gives the lock a token that no other holder has before or after it (see Lock.Token),
// so that those who read the key, with Inspect or for ForceRelease, can tell holders apart. It costs a
// command at each hand-over within a process, and two for each reader, who then shares nothing with
// other readers. Permits are not handed over then.
func WithUniqueToken(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.uniqueToken = on; return nil })
}

// DefaultTurn is how long a process keeps a lock to itself unless WithTurn says otherwise.
const DefaultTurn = 10 * time.Millisecond

// WithTurn sets the turn: for how long a process hands a lock over among its own callers while another
// process waits for it. After that the process that waits first gets the lock. A long turn makes
// hand-overs fast, a short one lets other processes wait for less time; with 0, every Release passes
// the lock on. While no other process waits, a turn does not end. Readers of a process share for as
// long (see AcquireShared), and permits are handed over for as long (see AcquirePermits).
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
// server keeps for each key, and a right that the user lacks for it is an error, whose text names it. With
// false they poll: they try again when they are told that the key has changed, and from time to time, and who
// comes first gets it. That is for servers and proxies without ZADD or SPUBLISH, and for users without the
// rights.
//
// Without the option they stand in the queue. If the server refuses a command for it because the user lacks a
// right, the Locker polls from then on, for all keys, until it is closed: Stats.Polling, an EventPolling and
// Probe tell so.
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
// each second of the server's clock, although processes of rlock wait for it in the queue. They take it when
// that time is over. It is for callers that stand in no queue, which is called barging: other libraries, and
// programs that do SET NX. Without it, they never find a lock free that several processes of rlock, or many
// callers of one, want all the time.
//
// A caller that asks again and again has the lock within a second, if others of its kind let it, and if
// barging is longer than its longest pause, a turn (WithTurn) and the time for which the lock is held together.
// In that time nobody of rlock gets the lock, so 300 ms cost up to 30 % of the acquisitions of a lock that is
// wanted all the time, and nothing of another. A lock that is shared lets nobody else share it then.
//
// It is 0, which is the default, to 500 ms, in whole milliseconds. All Lockers that use the keys should have the
// same: each release goes by its own. Where a Locker polls (WithQueue), it has no effect.
func WithBarging(barging time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.barging = barging
		if barging < 0 || barging > longestBarging || barging%time.Millisecond != 0 {
			return invalid("WithBarging", fmt.Sprintf("%v is no whole number of milliseconds from 0 to %v", barging, longestBarging))
		}
		return nil
	})
}

// longestBarging leaves half of the time to those who stand in the queue.
const longestBarging = time.Second / 2

// WithCacheTTL bounds how long Check may answer from the client-side cache if the server's message that
// the key changed does not arrive. The default is one minute.
func WithCacheTTL(ttl time.Duration) LockerOption {
	return lockerOption(func(s *settings) error {
		s.cacheTTL = ttl
		if ttl < time.Millisecond {
			return invalid("WithCacheTTL", fmt.Sprintf("%v is below 1ms", ttl))
		}
		return nil
	})
}

// WithInvalidations gives a Locker the Invalidations of its client, so that it notices at once that a
// lock was lost or a key became free. The caller of New has given them to the client too; Open does
// that itself.
func WithInvalidations(h *Invalidations) LockerOption {
	return lockerOption(func(s *settings) error {
		s.invalidations = h
		if h == nil || h.hub == nil {
			return invalid("WithInvalidations", "it is nil or the zero Invalidations; use NewInvalidations")
		}
		return nil
	})
}

// WithCrossSlot lets AcquireAll, TryAcquireAll, DoAll and TryDoAll take keys of several slots of a
// Redis Cluster, which no script can take at one instant. Without a cluster, and for keys of one slot,
// it changes nothing. It gives up some of what a set has otherwise:
//
//   - The keys are taken slot by slot, in an order that is the same for everybody, so sets cannot
//     deadlock. If another holds a key, the acquisition frees what it has taken and waits. So others
//     may see keys held for a moment by an acquisition that then fails.
//   - The leases of the slots begin one after the other. Deadline is that of the first.
//   - Extend, Release and Verify go to each slot by itself, and one may fail where others succeed. A
//     failed Extend counts on the shorter lease, a failed Release can be called again, and one lost key
//     ends the whole lock.
//   - A process that dies between two slots leaves those that it has taken until their leases end.
//
// The Fence is larger than that of every earlier acquisition of any of the keys, as in any set. If a
// node loses its data, that rests on the clocks of all nodes of the set. WithToken is refused, because
// freeing what was taken could free what another owner of the token holds.
func WithCrossSlot(on bool) CommonOption {
	return sharedOption(func(s *settings) error { s.crossSlot = on; return nil })
}

// WithMaxHold limits how long the lock is held: it is extended, automatically or by Extend, up to d after it
// was acquired and no further. Then it ends with ErrMaxHold, as does its Context, and its keys are freed. So
// a function that hangs, or a handle that somebody has forgotten, does not keep others out for ever. d is no
// shorter than the lease, and a lock WithTTL(NoExpiry) can have no limit. With a token of the caller's
// (WithToken) the keys are left to their lease. 0, which is the default, is no limit.
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
// before the lease does, with ErrLeaseEnding as the cause. It is for work that needs a while to stop: as long
// as it stops within d, no other holder begins before. The lock is held until its lease ends, and an
// extension that comes through in that time makes the lease longer, but does not bring the context back.
//
// d is a quarter of the lease at most, so that extensions have room to be late. A shorter lease is refused,
// by Extend too. The default is 0. A lock that is lost ends its Context at once, whatever d is.
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
		return invalid("WithAutoExtend", "a lock with WithTTL(NoExpiry) has no lease to extend; leave one of the two out")
	}
	if s.given.token && s.given.owner {
		return invalid("WithOwner", "its text is a part of the tokens that the Locker makes; leave it out, or leave WithToken out")
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

// WithObserver tells o what happens to the locks of the Locker, or to the lock of one call. That of a
// call replaces that of its Locker; Observers makes one of several. The Locker watches each lock that
// has an observer until it ends, so that the last event comes on time even if the program has forgotten
// the lock. Without an observer, events cost nothing.
func WithObserver(o Observer) CommonOption {
	return sharedOption(func(s *settings) error {
		s.observer = o
		if !isObserver(o) {
			return invalid("WithObserver", "it is nil; leave the option out to observe nothing")
		}
		return nil
	})
}

// WithOwner has the holder say who it is: State.Owner shows the text to those who ask why a key is
// locked. It is 1 to 256 bytes of printable UTF-8, such as DefaultOwner gives, and no secret. It is a
// part of the token, so it is there for as long as the lock is held, and costs no command and no key. A
// call cannot have it together with WithToken, which overrides a text that is a default of the Locker.
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
// earlier. So a job that several machines start at about the same time runs once, although it may take
// less time than their clocks differ by:
//
//	ran, err := locker.TryDo(ctx, "nightly report", report,
//		rlock.WithTTL(10*time.Minute), rlock.WithMinHold(10*time.Minute))
//
// For an hourly job, choose a d well below an hour, but above the time by which the clocks may differ.
// With 0, which is the default, Release frees the keys. d is a whole number of milliseconds. The lease
// must be as long as d, so that a process that dies keeps others out too: a shorter WithTTL is refused,
// and so is an Extend that would end the lease before.
//
// For its holder the lock ends at the Release, which does not wait: it leaves the keys another token,
// with the same text of WithOwner, and a lease that ends when d is over. Those who wait keep their
// order, and the first gets the lock then. ForceRelease frees the keys at any time. If fn of Do is not
// called because its context has ended, the keys are freed at once.
//
// Shares cannot have it.
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
