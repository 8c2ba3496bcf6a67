// Command transfer moves money between accounts. Each transfer holds the locks of both accounts.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/transfer -transfers 100
//
// DoAll takes both locks at one instant, or neither. Two transfers in opposite directions therefore cannot
// wait for each other, in one process or in several.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

// accounts share a hash tag, so that a Redis Cluster keeps them in one slot.
var accounts = []string{"{bank}:alice", "{bank}:bob", "{bank}:carol"}

func main() {
	transfers := flag.Int("transfers", 100, "how many")
	flag.Parse()
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	b := &bank{locker, locker.Client()}

	var wg sync.WaitGroup
	for range *transfers {
		wg.Go(func() {
			order := rand.Perm(len(accounts))
			if err := b.transfer(ctx, accounts[order[0]], accounts[order[1]], 1); err != nil &&
				!errors.Is(err, errTooLittle) {
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	total, err := b.total(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("all accounts together have", total)
}

type bank struct {
	locker *rlock.Locker
	client rueidis.Client
}

var errTooLittle = errors.New("the balance is too small")

func (b *bank) transfer(ctx context.Context, from, to string, amount int64) error {
	return b.locker.DoAll(ctx, []string{from, to}, func(ctx context.Context, lock *rlock.Lock) error {
		source, err := b.balance(ctx, from)
		if err != nil {
			return err
		}
		target, err := b.balance(ctx, to)
		if err != nil {
			return err
		}
		if source < amount {
			return errTooLittle
		}
		// The lock keeps other callers out. MSET writes both balances at once, so a crash in between loses no
		// money.
		return b.client.Do(ctx, b.client.B().Mset().KeyValue().
			KeyValue(from+":balance", strconv.FormatInt(source-amount, 10)).
			KeyValue(to+":balance", strconv.FormatInt(target+amount, 10)).Build()).Error()
	})
}

func (b *bank) total(ctx context.Context) (sum int64, err error) {
	err = b.locker.DoAll(ctx, accounts, func(ctx context.Context, lock *rlock.Lock) error {
		for _, account := range accounts {
			balance, err := b.balance(ctx, account)
			if err != nil {
				return err
			}
			sum += balance
		}
		return nil
	})
	return sum, err
}

// balance is 100 at first.
func (b *bank) balance(ctx context.Context, account string) (int64, error) {
	balance, err := b.client.Do(ctx, b.client.B().Get().Key(account+":balance").Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 100, nil
	}
	return balance, err
}
