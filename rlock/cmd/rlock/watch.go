package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

const (
	// unnoticed is how short a wait is that nobody is told of.
	unnoticed = 250 * time.Millisecond
	// refresh is how often somebody who waits at a terminal sees something new, for one command to the server.
	refresh = time.Second
	// patienceToAnswer is from when on the person is told that the server does not answer.
	patienceToAnswer = 3 * time.Second
	// unblocked is how long a terminal that Ctrl-S has stopped keeps a command from what comes next.
	unblocked = time.Second
	// inexact is by how much the server's milliseconds and the clocks may make a lease look longer.
	inexact = 100 * time.Millisecond
)

// style is how one is told that one waits.
type style uint8

const (
	mute  style = iota
	once        // a message when the holder is known: for -v and --json
	lines       // a message for each new holder: on a terminal that cannot erase
	live        // a line that changes
)

// style returns how somebody is told who waits.
func (p *program) style(w *waiting) style {
	switch {
	case w.none:
		return mute
	case p.json, p.verbose && !isTerminal(p.stderr):
		return once
	case !isTerminal(p.stderr):
		return mute
	}
	if term := p.getenv("TERM"); term == "" || term == "dumb" {
		return lines
	}
	return live
}

// watcher tells what a call waits for, while it waits.
type watcher struct {
	program  *program
	style    style
	admin    *rlockadmin.Admin
	keys     []string
	want     func(key string) string
	owner    string // what the call says about itself
	patience time.Duration
	start    time.Time

	key      int              // that stands in the way, as far as is known
	state    rlockadmin.State // as the server has said
	at       time.Time        // when it has said so
	unheard  time.Time        // when it was asked what it has not answered, be it with an error; zero: nothing
	since    time.Time        // from when on the holder was watched
	latest   time.Time        // when the lease ends at the latest, unless it is extended
	extended bool
	told     string // the token of the holder of whom a message has told
}

// answer is what the server says to a look.
type answer struct {
	state rlockadmin.State
	sent  time.Time
	err   error
}

// watch tells what a call waits for until stop is called, which erases the line.
func (p *program) watch(
	ctx context.Context, locker *rlock.Locker, w *waiting, want func(string) string, keys []string, owner string,
) (stop func()) {
	how := p.style(w)
	admin, err := rlockadmin.New(locker.Client())
	if how == mute || err != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	now := time.Now()
	watching := &watcher{
		program: p, style: how, admin: admin, keys: keys, want: want, owner: owner, patience: w.patience,
		start: now,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		watching.run(ctx)
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(unblocked):
		}
	}
}

func (w *watcher) run(ctx context.Context) {
	defer w.program.screen.erase()
	timer := time.NewTimer(unnoticed)
	defer timer.Stop()
	answers, asking := make(chan answer, 1), false
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-answers:
			asking = false
			w.take(a)
			if w.told != "" && w.style == once {
				return
			}
		case <-timer.C:
			timer.Reset(refresh)
			if !asking { // a server that is slow to answer is not asked twice
				asking = true
				w.ask(time.Now())
				key := w.keys[w.key]
				go func() { answers <- w.look(ctx, key) }()
			}
		}
		if w.style == live && ctx.Err() == nil {
			w.program.screen.draw(w.program.stderr.(*os.File), w.view(time.Now()).line)
		}
	}
}

func (w *watcher) look(ctx context.Context, key string) answer {
	a := answer{sent: time.Now()}
	a.state, a.err = inspect(ctx, w.admin, key)
	return a
}

// ask notes that the server is asked. A silence begins with a question, and not while rlock is suspended.
func (w *watcher) ask(now time.Time) {
	if w.unheard.IsZero() {
		w.unheard = now
	}
}

// take takes in what the server says.
func (w *watcher) take(a answer) {
	now := time.Now()
	if !errors.Is(a.err, rlock.ErrNoAnswer) {
		w.unheard = time.Time{}
	}
	if a.err != nil {
		return
	}
	before := w.state
	w.state, w.at = a.state, now
	if a.state.Mode == rlockadmin.Free { // of a set, another key may stand in the way
		w.key = (w.key + 1) % len(w.keys)
		return
	}
	// The server has counted what is left between the question and the answer.
	trip := now.Sub(a.sent)
	earliest, latest := now.Add(a.state.Remaining-trip), now.Add(a.state.Remaining+trip)
	switch {
	case before.Key != a.state.Key || before.Token() != a.state.Token():
		w.since, w.latest, w.extended = now, latest, false
	case a.state.Mode != rlockadmin.Exclusive: // the end is that of whoever came last
	case a.state.Remaining == rlock.NoExpiry:
		w.extended = false
	case earliest.After(w.latest.Add(inexact)):
		w.latest, w.extended = latest, true
	case latest.Before(w.latest):
		w.latest = latest
	}
	if w.style == live || w.told == a.state.Token() {
		return
	}
	w.told = a.state.Token()
	v := w.view(now)
	w.program.say("contended", v.words(v.want, v.holder(), true), fields{
		"keys": texts(w.keys), "remaining_ms": milliseconds(a.state.Remaining), "owner": sharers(a.state),
	})
}

// view is what there is to tell.
func (w *watcher) view(now time.Time) view {
	v := view{
		want: w.want(w.keys[w.key]), waited: now.Sub(w.start), patience: w.patience,
		state: since(w.state, now.Sub(w.at)), place: placeOf(w.owner, w.state), extended: w.extended,
	}
	if silent := now.Sub(w.unheard); !w.unheard.IsZero() && silent >= patienceToAnswer {
		v.silent = silent
	}
	if w.state.Mode != rlockadmin.Free {
		v.held = now.Sub(w.since)
	}
	return v
}
