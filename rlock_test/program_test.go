package rlock_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

// The environment variables that make the test binary another program: its name, and
// the address of its server.
const (
	programName   = "RLOCK_PROGRAM"
	programServer = "RLOCK_PROGRAM_SERVER"
)

// programs are what the test binary can be.
var programs = map[string]func(locker *rlock.Locker) error{
	"hold":  holdForEver,
	"crowd": crowd,
}

func runProgram(name string) error {
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{os.Getenv(programServer)}})
	if err != nil {
		return err
	}
	defer locker.Close()
	return programs[name](locker)
}

// holdForEver takes a lock, says so, and has it extended until the process is killed.
func holdForEver(locker *rlock.Locker) error {
	return locker.Do(context.Background(), "job", func(ctx context.Context, _ *rlock.Lock) error {
		fmt.Println("held")
		<-ctx.Done()
		return ctx.Err()
	}, rlock.WithTTL(crashTTL))
}

// crowdSize is how many goroutines of one process want the same lock.
const crowdSize = 100

// crowd has each of many goroutines take and release one lock, from the line "go" on
// standard input.
func crowd(locker *rlock.Locker) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := together(crowdSize, func(int) error {
		lock, err := locker.Acquire(ctx, "job")
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	})
	if err == nil {
		fmt.Println("done")
	}
	return err
}
