// Demo shows what locks of rlock do, between processes that it starts, kills and stalls:
//
//	go run ./rlock_test/demo
//
// runs it on a server inside the program, so nothing has to be installed, and
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/demo
//
// on a real one, also on a node of a Redis Cluster. REDIS_ADDR may be a URL:
// redis://user:password@host:6379, or rediss:// for TLS. With -v it begins with the audit
// of the scripts, and shows every transfer.
//
// All its keys begin with "demo:" and a random number, and are deleted at the end. What
// stays is one small key named rlock:fence:{…}, the counter that the fences come from,
// which belongs to all locks of its hash slot.
//
// It takes under ten seconds. The exit code is 0 if everything that it shows held, and 1
// otherwise.
//
// To read it, start with worker.go, which is what a process does with its locks; then
// every scene has a file of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// limit ends a demo that hangs, which takes a few seconds when all is well.
const limit = time.Minute

func main() {
	if os.Getenv(roleVariable) != "" {
		if err := work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "demo: worker:", err)
			os.Exit(1)
		}
		return
	}
	verbose := flag.Bool("v", false, "begin with the audit of the scripts, and show every transfer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once

	err := run(ctx, os.Stdout, os.Getenv(addressVariable), *verbose)
	if err != nil {
		what := "failed"
		if ctx.Err() != nil {
			what = "interrupted"
		}
		fmt.Fprintf(os.Stderr, "\ndemo %s: %v\n", what, err)
		os.Exit(1)
	}
}

// run plays all scenes on the server at address, or on an embedded one if address is
// empty. It returns nil if all of them went through and everything that they show held.
// When ctx ends it stops, and leaves as little behind as when it is done.
func run(ctx context.Context, stdout io.Writer, address string, verbose bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if verbose {
		if err := audit(ctx, stdout); err != nil {
			return err
		}
	}
	d := &demo{timeline: newTimeline(stdout), verbose: verbose}
	if d.server, err = connect(ctx, address); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	d.print("server: %s; keys of this run: %s*\n", d.server.name, d.server.prefix)
	for _, scene := range []func(context.Context) error{
		d.transfers,
		d.takeover,
		d.deletion,
		d.lateWriter,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	if err := d.judgeTheEnd(ctx); err != nil {
		return err
	}
	return d.verdict()
}

// demo is what the scenes have in common.
type demo struct {
	*timeline
	server   *server
	verbose  bool
	started  int // processes
	verdicts []verdict
}

// close deletes the keys of this run, even if ctx has ended. The processes of a scene
// have ended with it.
func (d *demo) close(ctx context.Context) error {
	defer d.server.close()
	return d.server.delete(ctx)
}
