package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

func main() {
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(p.run(os.Args[1:]))
}

// program is one call of rlock, and what it has of the operating system.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	screen screen // on stderr

	leaving chan error   // what rlock ends with at once
	commit  func() error // keeps later signals from ending rlock; the error is that of one that came before

	json    bool // --json of the command
	verbose bool // -v of the command
}

// commands are what the first argument may be.
var commands = map[string]func(*program, []string) error{
	"run":           (*program).runCommand,
	"acquire":       (*program).acquireCommand,
	"extend":        (*program).extendCommand,
	"release":       (*program).releaseCommand,
	"force-release": (*program).forceReleaseCommand,
	"wait":          (*program).waitCommand,
	"who":           (*program).whoCommand,
	"ls":            (*program).listCommand,
	"probe":         (*program).probeCommand,
	"version":       (*program).versionCommand,
}

// run does what the arguments say and returns the exit code.
func (p *program) run(args []string) int {
	defer passSignals()()
	p.leaving = make(chan error, 1)
	done := make(chan error, 1)
	go func() { done <- p.dispatch(args) }()
	var err error
	select {
	case err = <-done:
	case err = <-p.leaving:
	}
	if text := errorText(err); text != "" {
		p.say("error", text, fields{"code": exitCode(err)})
	}
	return exitCode(err)
}

func (p *program) dispatch(args []string) error {
	if len(args) == 0 {
		return failure(exitFailed, "there is no command; see rlock -h")
	}
	name, rest := args[0], args[1:]
	switch name {
	case "-h":
		return p.usage(nil)
	case "help", "-help", "--help":
		return p.help(rest)
	case "-version", "--version":
		name = "version"
	}
	command, known := commands[name]
	if !known {
		return failure(exitFailed, "there is no command %s; see rlock -h", quote(name))
	}
	err := command(p, rest)
	var short *wantUsage
	switch {
	case errors.As(err, &short):
		return p.usage(short.flags)
	case errors.Is(err, flag.ErrHelp):
		return p.help([]string{name})
	}
	return err
}

// locker connects to the server, for which it waits as w says, and returns a context for the calls of one
// command.
func (p *program) locker(
	w *waiting, opts ...rlock.LockerOption,
) (context.Context, *rlock.Locker, func(), error) {
	c, err := newConnection(p.getenv)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := p.context()
	w.begin(p, c)
	locker, err := p.connect(ctx, c, w, opts...)
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return ctx, locker, func() {
		locker.Close()
		cancel()
	}, nil
}

// admin is locker for a command that looks at locks, or repairs them.
func (p *program) admin() (context.Context, *rlockadmin.Admin, func(), error) {
	ctx, locker, done, err := p.locker(&atOnce)
	if err != nil {
		return nil, nil, nil, err
	}
	admin, err := rlockadmin.New(locker.Client())
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return ctx, admin, done, nil
}

// write prints to standard output. Without it the command has not done what it was called for.
func (p *program) write(text string) error {
	if _, err := io.WriteString(p.stdout, text); err != nil {
		return failure(exitFailed, "cannot write to standard output: %v", err)
	}
	return nil
}

// fields are those of a JSON object.
type fields map[string]any

// result prints what a command has found: the object with --json, and otherwise the text, which has
// its line ends.
func (p *program) result(text string, object fields) error {
	if p.json {
		return p.write(line(object))
	}
	return p.write(text)
}

// say tells on standard error what has happened. Nobody can be told that this failed.
func (p *program) say(event, text string, more fields) {
	if !p.json {
		p.screen.above(p.stderr, "rlock: "+text+"\n")
		return
	}
	object := fields{"event": event, "message": text}
	for name, value := range more {
		object[name] = value
	}
	p.screen.above(p.stderr, line(object))
}

// note is say for what only -v and --json tell.
func (p *program) note(event, text string, more fields) {
	if p.verbose || p.json {
		p.say(event, text, more)
	}
}

// errorText is what people are told of an error, "" if they need not be told.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "rlock: ")
}
