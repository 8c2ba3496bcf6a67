package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// margin is how long before the end of the lease the command is killed at the latest: longer than
// SIGKILL takes to have its effect on a busy machine.
const margin = 100 * time.Millisecond

// running is what the flags and operands of rlock run say.
type running struct {
	acquisition
	keys      []string
	command   []string
	stop      syscall.Signal
	killAfter time.Duration
}

// runCommand is rlock run.
func (p *program) runCommand(args []string) error {
	r, err := p.running(args)
	if err != nil {
		return err
	}
	path, err := find(r.command[0])
	if err != nil {
		return err
	}
	var failing atomic.Pointer[error] // the last extension, if it failed
	observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		switch e.Kind {
		case rlock.EventShortLease:
			p.say("short_lease", "--ttl "+r.ttl.String()+" may be over before an extension gets through "+
				"if a connection dies silently; use a longer --ttl, or a shorter write_timeout in the URL", nil)
		case rlock.EventPolling:
			p.note("polling", "the user lacks a right for the queue, so any waiter may get a free key first: "+
				e.Err.Error(), nil)
		case rlock.EventExtendFailed:
			failing.Store(&e.Err)
		case rlock.EventExtended:
			failing.Store(nil)
		}
	})
	// Of the lease, until CMD must stop. Open sets the time-outs of the client by it.
	usable := (r.ttl - r.killAfter - margin).Truncate(time.Millisecond)
	ctx, locker, done, err := p.locker(&r.waiting, rlock.WithTTL(usable))
	if err != nil {
		return err
	}
	defer done()
	if err := refuseOwn(ctx, locker, p.getenv, r.keys); err != nil {
		return err
	}
	start := time.Now()
	stop := p.watch(ctx, locker, &r.waiting, r.want, r.keys, r.owner)
	lock, err := r.take(ctx, p, locker, r.keys, rlock.WithAutoExtend(true), rlock.WithObserver(observer))
	stop()
	if err != nil {
		return err
	}
	p.note("acquired", fmt.Sprintf("holding %s, fence %d", quoteAll(r.keys), lock.Fence()),
		fields{"keys": texts(r.keys), "fence": lock.Fence(), "waited_ms": time.Since(start).Milliseconds()})
	s := &supervision{
		program: p, lock: lock, stop: r.stop, killAfter: r.killAfter, ttl: r.ttl,
		keptUntil: time.Now().Add(r.minHold),
		giveBack:  func() error { return r.giveBack(locker, lock) },
		tell:      fields{"keys": texts(r.keys)},
		failing:   func() error { return deref(failing.Load()) },
	}
	cmd := exec.Command(path, r.command[1:]...)
	cmd.Args[0] = r.command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	cmd.Env = append(os.Environ(),
		"RLOCK_KEY="+strings.Join(r.keys, "\n"), "RLOCK_TOKEN="+lock.Token(),
		"RLOCK_FENCE="+strconv.FormatUint(lock.Fence(), 10))
	return s.run(cmd)
}

func deref(err *error) error {
	if err == nil {
		return nil
	}
	return *err
}

func (r *running) define(a *arguments, p *program) {
	r.acquisition.define(a)
	a.flags.Func("key", "", func(key string) error {
		r.keys = append(r.keys, key)
		return nil
	})
	a.duration(&r.minHold, "min-hold")
	r.stop = syscall.SIGTERM
	a.flags.Func("signal", "", func(text string) (err error) {
		r.stop, err = readSignal(text)
		return err
	})
	r.killAfter = 5 * time.Second
	a.duration(&r.killAfter, "kill-after")
	a.flags.BoolVar(&p.verbose, "verbose", false, "")
	a.alias("v", "verbose")
}

// running parses the arguments of rlock run, and refuses what cannot work.
func (p *program) running(args []string) (*running, error) {
	a := p.arguments("run")
	r := &running{}
	r.define(a, p)
	operands, command, dashed, err := a.parse(args)
	if err != nil {
		return nil, err
	}
	r.keys, r.command = append(operands, r.keys...), command
	switch {
	case len(r.keys) == 0:
		return nil, a.usage("there is no KEY; the form is rlock run [flags] KEY [KEY…] -- CMD [ARG…]")
	case !dashed || len(command) == 0:
		return nil, a.usage("there is no CMD; the form is rlock run [flags] KEY [KEY…] -- CMD [ARG…]")
	case command[0] == "":
		return nil, failure(exitNotFound, "CMD is empty; check that the shell variable is set")
	}
	if err := checkSet(r.keys); err != nil {
		return nil, err
	}
	if err := r.check(a, len(r.keys)); err != nil {
		return nil, err
	}
	if r.killAfter > math.MaxInt64/3-margin {
		return nil, a.usage("--kill-after %v is too long: no --ttl is three times as long; use a shorter "+
			"--kill-after", r.killAfter)
	}
	if least := 3 * (r.killAfter + margin); r.ttl < least {
		return nil,
			a.usage("--ttl %v leaves no time to extend the lease before CMD must stop for --kill-after %v; use --ttl "+
				"%v or more, or a shorter --kill-after",
				r.ttl, r.killAfter, least)
	}
	if r.owner == "" {
		r.owner = ownerOf(r.command[0])
	}
	return r, nil
}

// find looks for the program as execvp(3) does.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", failure(exitNotFound, "%s is not found", quote(name))
	}
	return "", unrunnable(name, err)
}

// unrunnable is the error of a program that cannot be executed.
func unrunnable(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure(exitNotFound, "%s is not found, or the interpreter in its first line is not found",
			quote(name))
	case errors.Is(err, syscall.ENOEXEC):
		return failure(exitUnrunnable, "cannot execute %s: %w; a script must begin with a line such as #!/bin/sh",
			quote(name), err)
	}
	return failure(exitUnrunnable, "cannot execute %s: %w", quote(name), err)
}

// refuseOwn refuses a key that the caller's own surroundings hold: by RLOCK_TOKEN, for RLOCK_KEY.
func refuseOwn(ctx context.Context, locker *rlock.Locker, getenv func(string) string, keys []string) error {
	held := strings.Split(getenv("RLOCK_KEY"), "\n")
	admin, err := rlockadmin.New(locker.Client())
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !slices.Contains(held, key) {
			continue
		}
		state, err := inspect(ctx, admin, key)
		if err != nil {
			return err
		}
		if _, own := by(state, getenv("RLOCK_TOKEN")); own {
			return failure(exitFailed, "RLOCK_KEY and RLOCK_TOKEN say that this command already runs under the "+
				"lock of %s; it could wait for itself for ever", quote(key))
		}
	}
	return nil
}

// texts are keys for JSON.
func texts(keys []string) []string {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = strings.ToValidUTF8(key, "\uFFFD")
	}
	return list
}
