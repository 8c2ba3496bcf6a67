package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rlock-go/toolkit/generator/internal/file"
)

// pollEvery is how often -watch reads the scripts. A person does not notice a quarter of a
// second, and BenchmarkPoll measures what a poll costs: 2 to 5 ms for 100 scripts.
const pollEvery = 250 * time.Millisecond

// watchUntilInterrupted runs watch until the user presses Ctrl-C, or the process is told to
// end.
func watchUntilInterrupted(o options, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return watch(ctx, o, stdout, stderr)
}

// watch runs the generator, and runs it again after each change of a script or a fragment,
// until ctx ends. A run that fails does not end it, because the next change may mend that.
func watch(ctx context.Context, o options, stdout, stderr io.Writer) error {
	o.verbose = true
	fmt.Fprintf(stdout, "watching %s; end with Ctrl-C\n", strings.Join(o.scripts, ", "))
	for {
		s := load(o.scripts)
		seen := state(o.scripts, s.fragments)
		err := once(o, s, stdout, stderr)
		switch {
		case errors.Is(err, errReported) || errors.Is(err, errUnreadable):
			fmt.Fprintln(stderr, "redislua: nothing was written; mend the findings")
		case err != nil:
			fmt.Fprintln(stderr, "redislua:", err)
		}
		if !changed(ctx, seen, func() sum { return state(o.scripts, s.fragments) }) {
			return nil
		}
	}
}

// changed waits until the files are not what they were, and two polls have seen them alike:
// an editor may write a file in several steps. It returns false if ctx ends first.
func changed(ctx context.Context, before sum, state func() sum) bool {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for last := before; ; {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		now := state()
		if now != before && now == last {
			return true
		}
		last = now
	}
}

type sum [sha256.Size]byte

// state returns a sum of all Lua files below the directories, and of the fragments, with
// their names. It sums the texts, because two changes within one tick of a file system's clock
// have one time.
func state(dirs, fragments []string) sum {
	paths := slices.Clone(fragments)
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".lua") {
				paths = append(paths, path)
			}
			return nil // what cannot be read is a finding of the run
		})
	}
	slices.Sort(paths)
	all := sha256.New()
	for _, path := range slices.Compact(paths) {
		text, err := file.Read(path)
		fmt.Fprintf(all, "%q %v %d\n", path, err, len(text))
		all.Write(text)
	}
	return sum(all.Sum(nil))
}
