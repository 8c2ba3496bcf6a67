package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
)

// arguments are the flags of a command. Each may have a short name.
type arguments struct {
	flags *flag.FlagSet
	short map[string]string // the long name of each short one
}

// arguments begins the flags of the command with those that every command has.
func (p *program) arguments(command string) *arguments {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.BoolVar(&p.json, "json", false, "")
	return &arguments{flags, map[string]string{}}
}

// alias gives the flag name a short name.
func (a *arguments) alias(short, name string) {
	a.short[short] = name
	a.flags.Var(a.flags.Lookup(name).Value, short, "")
}

// duration defines a flag that is a length of time. A number without a unit is in seconds, as
// timeout(1) and flock(1) have it.
func (a *arguments) duration(d *time.Duration, name string) {
	a.flags.Func(name, "", func(text string) (err error) {
		*d, err = readDuration(text)
		return err
	})
}

func readDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, plain := strconv.ParseFloat(text, 64); plain == nil {
		if d, err = time.ParseDuration(text + "s"); err != nil { // it has an exponent, or is too long
			d, err = nanoseconds(seconds), nil
		}
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("want a time such as 30s, 1m30s or 500ms")
	case d < 0 || strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("want a time of 0 or more that is not too long")
	case d%time.Millisecond != 0:
		return 0, fmt.Errorf("want a whole number of milliseconds")
	}
	return d, nil
}

// nanoseconds returns the nearest length of time, below 0 for what is none. A binary number is seldom
// exactly what was written, so it must not be cut.
func nanoseconds(seconds float64) time.Duration {
	n := math.Round(seconds * float64(time.Second))
	if math.IsNaN(n) || n >= math.MaxInt64 {
		return -1
	}
	return time.Duration(n)
}

// parse reads flags and operands in any order. What follows "--" is in after, and dashed tells
// whether there is a "--".
func (a *arguments) parse(args []string) (operands, after []string, dashed bool, err error) {
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			return operands, args[1:], true, nil
		case arg == "-h":
			return nil, nil, false, &wantUsage{a.flags}
		case !strings.HasPrefix(arg, "-") || arg == "-":
			operands = append(operands, arg)
			args = args[1:]
		default:
			n := min(a.length(arg), len(args))
			if err := a.flags.Parse(args[:n]); err != nil {
				return nil, nil, false, a.wrong(err)
			}
			args = args[n:]
		}
	}
	return operands, nil, false, nil
}

// length is of how many arguments the flag consists that begins with arg.
func (a *arguments) length(arg string) int {
	name, _, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	f := a.flags.Lookup(name)
	if joined || f == nil {
		return 1
	}
	if b, is := f.Value.(interface{ IsBoolFlag() bool }); is && b.IsBoolFlag() {
		return 1
	}
	return 2
}

// wrong tells people what package flag has found.
func (a *arguments) wrong(err error) error {
	if err == flag.ErrHelp {
		return err
	}
	return failure(exitFailed, "%v; see rlock %s -h", err, a.flags.Name())
}

// usage is the error of a command with wrong operands.
func (a *arguments) usage(format string, args ...any) error {
	return failure(exitFailed, "%s; see rlock %s -h", fmt.Sprintf(format, args...), a.flags.Name())
}

// keys parses the arguments of a command whose operands are keys.
func (a *arguments) keys(args []string, least, most int, want string) ([]string, error) {
	keys, err := a.operands(args, least, most, want)
	if err != nil {
		return nil, err
	}
	return keys, checkKeys(keys)
}

// operands parses the arguments of a command whose operands are not empty, but need not be keys.
func (a *arguments) operands(args []string, least, most int, want string) ([]string, error) {
	operands, after, _, err := a.parse(args)
	if err != nil {
		return nil, err
	}
	operands = slices.Concat(operands, after)
	if len(operands) < least || len(operands) > most {
		return nil, a.usage("want %s, got %d operands", want, len(operands))
	}
	return operands, checkEmpty(operands)
}

// checkEmpty refuses what a variable of the shell is that nobody has set.
func checkEmpty(operands []string) error {
	if slices.Contains(operands, "") {
		return failure(exitFailed, "a key is empty; check that the shell variable is set")
	}
	return nil
}

// checkKeys refuses what no lock can have as its key, before anything is sent.
func checkKeys(keys []string) error {
	if err := checkEmpty(keys); err != nil {
		return err
	}
	for _, key := range keys {
		if _, wrong := argument.Key("", key); wrong != nil {
			return failure(exitFailed, "%s: %s", quote(key), wrong.Reason)
		}
	}
	return nil
}

// checkSet is checkKeys for keys that are taken together.
func checkSet(keys []string) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	for i, key := range keys {
		if slices.Contains(keys[:i], key) {
			return failure(exitFailed, "%s stands twice among the keys; name each key once", quote(key))
		}
	}
	return nil
}
