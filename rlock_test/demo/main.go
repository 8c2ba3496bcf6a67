// Demo shows how locks of rlock behave between processes that the demo starts, kills and stalls.
//
//	go run ./rlock_test/demo
//
// The command runs the demo on a server inside the program, so you install nothing. To run it on a real
// server, name the server:
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/demo
//
// The server may be a node of a Redis Cluster. REDIS_ADDR may be a URL: redis://user:password@host:6379, or
// rediss:// for TLS. With -v, the demo begins with the audit of the scripts, and shows every transfer.
//
// All keys of the demo begin with "demo:" and a random number. The demo deletes them at the end. One small
// key stays: rlock:fence:{…}, the counter of the fences for all locks of its hash slot.
//
// The demo takes under ten seconds. The exit code is 0 if every claim of the demo holds, and 1 otherwise.
//
// To read the code, start with worker.go, which is what a process does with its locks. Each scene has its own
// file.
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

// limit ends a demo that hangs. A good run takes a few seconds.
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

// run plays all scenes on the server at address, or on an embedded server if address is empty. run returns
// nil if all scenes ran and every claim held. When ctx ends, run stops, and still deletes its keys.
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

// demo is what the scenes share.
type demo struct {
	*timeline
	server   *server
	verbose  bool
	started  int // processes
	verdicts []verdict
}

// close deletes the keys of this run, even if ctx has ended. By then each scene has ended its processes.
func (d *demo) close(ctx context.Context) error {
	defer d.server.close()
	return d.server.delete(ctx)
}
