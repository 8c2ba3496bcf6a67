// Demo shows what rlock does, as a timeline that a person can follow: workers
// that move money under two locks at once, a worker that dies with a lock in its
// hands, checks at the speed of memory, and fences. It ends with a tally and with
// what must be true of it, each line PASS or FAIL.
//
//	go run ./rlock_test/demo
//
// runs it on a server inside the program, so nothing has to be installed, and
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/demo
//
// on a real one, also on a node of a Redis Cluster. All its keys begin with
// "demo:" and a random number, and are deleted at the end. What stays is one small
// key named rlock:fence:{…}, the counter that the fences come from, which belongs
// to all locks of its hash slot.
//
// It takes some seconds. The exit code is 0 if everything passed and 1 otherwise.
//
// To read it, start with transfers.go; then every scene has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// limit ends a demo that hangs, which takes a few seconds when all is well.
const limit = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once

	if err := run(ctx, os.Stdout, os.Getenv("REDIS_ADDR")); err != nil {
		what := "failed"
		if ctx.Err() != nil {
			what = "interrupted"
		}
		fmt.Fprintf(os.Stderr, "\ndemo %s: %v\n", what, err)
		os.Exit(1)
	}
}

// run plays all scenes on the server at addr, or on an embedded one if addr is
// empty. It returns nil if all of them went through and every invariant held. When
// ctx ends it stops, and leaves as little behind as when it is done.
func run(ctx context.Context, stdout io.Writer, addr string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d, err := newDemo(ctx, stdout, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()

	for _, scene := range []func(context.Context) error{
		d.transfers,
		d.takeover,
		d.cachedChecks,
		d.risingFences,
		d.tally,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// demo is what the scenes have in common.
type demo struct {
	*timeline
	server  *server
	bank    *bank
	referee *referee
}

func newDemo(ctx context.Context, stdout io.Writer, addr string) (*demo, error) {
	d := &demo{timeline: newTimeline(stdout), referee: newReferee()}
	var err error
	if d.server, err = connect(ctx, addr); err != nil {
		return nil, err
	}
	d.bank = newBank(d.server.prefix)
	d.say("demo", "server: %s", d.server.name)
	d.say("demo", "keys of this run: %s*", d.server.prefix)
	return d, nil
}

// close deletes the keys of this run, even if ctx has ended.
func (d *demo) close(ctx context.Context) error {
	defer d.server.close()
	return d.server.delete(ctx, d.bank.keys())
}
