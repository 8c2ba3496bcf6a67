package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// phase is how far a command is.
type phase uint8

const (
	working   phase = iota // it runs under the lock
	stopping               // its group was told to stop
	remaining              // it has ended after that, but its group may have more processes
	killed                 // its group was killed, but it is not gone yet
	over                   // it has ended, and nothing is left to do for its group
)

// event is what changes the phase.
type event uint8

const (
	leaseEnding  event = iota // --kill-after and the margin are all that is left of the lease
	leaseOver                 // nothing is left of it
	lockLost                  // the server says so
	killDue                   // --kill-after is over
	commandEnded              // CMD has ended
	groupEmpty                // no process of its group is left
)

// after returns the phase that follows p. Events that change nothing are those that come late.
func (p phase) after(e event) phase {
	switch {
	case p == working && (e == leaseEnding || e == lockLost):
		return stopping
	case (p == working || p == stopping) && e == leaseOver, p == stopping && e == killDue:
		return killed
	case p == stopping && e == commandEnded:
		return remaining
	case (p == working || p == killed) && e == commandEnded:
		return over
	case p == remaining && (e == killDue || e == leaseOver || e == groupEmpty):
		return over
	}
	return p
}

// change is what the operating system tells of a command.
type change struct {
	ended   bool
	code    int            // if it has ended; see exitCode
	signal  syscall.Signal // that has ended or stopped it, 0 for none
	isStill bool           // it is stopped until SIGCONT
}

// supervision runs a command under a lock.
type supervision struct {
	program   *program
	lock      *rlock.Lock
	group     *group
	stop      syscall.Signal
	killAfter time.Duration
	ttl       time.Duration
	keptUntil time.Time    // others are kept out until then, however early the command ends
	giveBack  func() error // releases the lock of a command that was not started
	tell      fields       // of every message
	failing   func() error // why the last extension failed

	phase  phase
	reason string    // why the command was told to stop
	killAt time.Time // when it is killed
	end    change    // how it has ended
}

// run starts the command, waits until it has ended or was stopped, and releases the lock.
func (s *supervision) run(cmd *exec.Cmd) error {
	signals, ignore := notify()
	defer ignore()
	if s.room() <= 0 && !s.extend() {
		return s.finish(failure(exitLost, "the lease is nearly over, and rlock could not extend it; CMD was not "+
			"started"), s.giveBack)
	}
	err := s.program.commit()
	if err != nil { // of a signal that has come before signals were passed on
		return s.finish(err, s.giveBack)
	}
	if s.group, err = start(cmd, signals); err != nil {
		return s.finish(unrunnable(cmd.Args[0], err), s.giveBack)
	}
	s.loop(signals)
	s.group.close() // while there is time
	more := fields{"code": s.end.code}
	if s.end.signal != 0 {
		more["signal"] = signalName(s.end.signal)
	}
	s.note("exited", fmt.Sprintf("CMD has ended with exit code %d", s.end.code), more)
	if s.reason != "" {
		lost := failure(exitLost, "the lock was lost: %s; CMD was stopped", s.reason)
		s.program.within(min(time.Until(s.lock.Deadline()), grace), lost)
		return s.finish(lost, s.release)
	}
	return s.finish(&exit{code: s.end.code}, s.release)
}

func (s *supervision) release() error { return release(s.lock) }

// finish releases the lock. It returns the error that rlock ends with: a loss that is noticed only now
// goes before the exit code of the command.
func (s *supervision) finish(err error, release func() error) (result error) {
	defer func() { s.program.within(grace, result) }() // nothing is left to do but to close connections
	lease := time.Until(s.lock.Deadline())
	released := release()
	switch kept := time.Until(s.keptUntil); {
	case released == nil && s.end.ended && kept > 0:
		s.note("kept", "--min-hold keeps the lock: "+left(kept),
			fields{"remaining_ms": kept.Milliseconds()})
	case released == nil:
		s.note("released", "released the lock", nil)
	case exitCode(err) == exitLost: // that is told already
	case errors.Is(released, rlock.ErrLost), errors.Is(released, rlock.ErrExpired):
		return failure(exitLost, "the lock was lost while CMD ran; rlock noticed the loss after CMD ended with "+
			"exit code %d: %w", exitCode(err), released)
	default:
		s.say("error", fmt.Sprintf("cannot release the lock; its lease ends in %v: %v",
			max(lease, 0).Round(time.Millisecond), errorText(released)), nil)
	}
	return err
}

// loop returns when the phase is over.
func (s *supervision) loop(signals <-chan os.Signal) {
	lost := s.lock.Context().Done()
	for s.phase != over {
		timer := time.NewTimer(s.pause())
		select {
		case <-timer.C:
			s.look()
		case <-lost:
			lost = nil
			s.lose(context.Cause(s.lock.Context()))
		case c := <-s.group.changes:
			s.changed(c)
		case sig := <-signals:
			s.group.pass(sig)
		}
		timer.Stop()
	}
}

// pollGroup is how often the group of a command that has ended is looked at.
const pollGroup = 10 * time.Millisecond

// pause is how long nothing needs to be looked at.
func (s *supervision) pause() time.Duration {
	switch s.phase {
	case working:
		return s.room()
	case stopping:
		return time.Until(s.killAt)
	case remaining:
		return min(time.Until(s.killAt), pollGroup)
	}
	return time.Hour
}

// room is how long the command may run on if the lease is not extended.
func (s *supervision) room() time.Duration {
	return time.Until(s.lock.Deadline()) - s.killAfter - margin
}

// look finds out what the time has brought.
func (s *supervision) look() {
	switch {
	case s.phase == working && s.room() <= 0:
		why := "the lease could not be extended in time"
		if err := s.failing(); err != nil {
			why += ": " + errorText(err)
		}
		s.happened(leaseEnding, why)
	case s.phase == remaining && s.group.empty():
		s.happened(groupEmpty, "")
	case s.phase != working && !time.Now().Before(s.killAt):
		s.happened(killDue, "")
	}
}

// lose is called when the lock has ended.
func (s *supervision) lose(cause error) {
	if errors.Is(cause, rlock.ErrExpired) {
		s.happened(leaseOver, "the lease has ended before it was extended")
		return
	}
	s.happened(lockLost, errorText(cause))
}

// happened changes the phase, and does what that means for the command. why is the reason to stop it.
func (s *supervision) happened(e event, why string) {
	before := s.phase
	if s.phase = before.after(e); s.phase == before {
		return
	}
	if s.reason == "" {
		s.reason = why
	}
	switch {
	case s.phase == stopping:
		s.killAt = time.Now().Add(s.killAfter)
		if end := s.lock.Deadline().Add(-margin); e == leaseEnding && end.Before(s.killAt) {
			s.killAt = end
		}
		s.say("stopping", "stopping CMD: "+s.reason, fields{"reason": s.reason})
		s.group.stop(s.stop)
	case s.phase == killed, before == remaining && e != groupEmpty:
		s.group.kill()
		s.say("killed", "killed the rest of CMD: "+s.reason, fields{"reason": s.reason})
	}
}

// changed takes in that the command has ended, or was suspended.
func (s *supervision) changed(c change) {
	switch {
	case c.ended:
		s.end = c
		s.happened(commandEnded, "")
	case s.phase == working && s.group.suspended(c.signal, s.suspending):
		if s.lock.Err() == nil && (s.room() > s.ttl/3 || s.extend()) {
			s.group.resume()
			return
		}
		s.happened(leaseOver, "the lease has ended while rlock was suspended")
	}
}

// suspending tells that rlock is about to be suspended.
func (s *supervision) suspending() {
	s.say("suspended", fmt.Sprintf("suspended; the lease ends in %v unless rlock continues before",
		time.Until(s.lock.Deadline()).Round(time.Second)), nil)
}

// extend extends the lease at once.
func (s *supervision) extend() bool {
	ctx, cancel := context.WithDeadline(context.Background(), s.lock.Deadline().Add(-margin))
	defer cancel()
	return s.lock.Extend(ctx, s.ttl) == nil && s.room() > 0
}

func (s *supervision) say(event, text string, more fields) {
	s.program.say(event, text, s.with(more))
}
func (s *supervision) note(event, text string, more fields) {
	s.program.note(event, text, s.with(more))
}

func (s *supervision) with(more fields) fields {
	all := fields{}
	for _, some := range []fields{s.tell, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return all
}
