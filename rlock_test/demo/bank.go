package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// opening is what every account has at first.
const opening = 100

// bank keeps each balance in a Redis key of its own and does nothing to protect
// it: it reads, thinks, and writes what it has thought of. Whatever another worker
// writes in between is overwritten, and the money is gone or has doubled. Only the
// locks around it keep the total right.
type bank struct {
	accounts []*account
}

type account struct {
	name   string
	key    string       // of the balance
	inside atomic.Int32 // the worker that is at it, for the referee; 0: none
	last   atomic.Int32 // the worker that was at it last
}

// lock is the name of the account's lock. It is not the key of the balance: a
// lock is a key with the holder's token in it.
func (a *account) lock() string { return "account:" + a.name }

func newBank(prefix string) *bank {
	b := &bank{}
	for _, name := range []string{"ada", "ben", "cleo", "dan", "eve", "finn", "gil", "hana", "ivo", "jude"} {
		b.accounts = append(b.accounts, &account{name: name, key: prefix + "balance:" + name})
	}
	return b
}

func (b *bank) open(ctx context.Context, client rueidis.Client) error {
	for _, a := range b.accounts {
		if err := setBalance(ctx, client, a, opening); err != nil {
			return err
		}
	}
	return nil
}

func (b *bank) total(ctx context.Context, client rueidis.Client) (int64, error) {
	var total int64
	for _, a := range b.accounts {
		n, err := balance(ctx, client, a)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func (b *bank) keys() []string {
	var keys []string
	for _, a := range b.accounts {
		keys = append(keys, a.key)
	}
	return keys
}

// pair draws two different accounts, in any order.
func (b *bank) pair() (from, to *account) {
	i := rand.IntN(len(b.accounts))
	j := rand.IntN(len(b.accounts) - 1)
	if j >= i {
		j++
	}
	return b.accounts[i], b.accounts[j]
}

// move takes up to most from one account and gives it to another. The caller must
// hold the locks of both.
func move(ctx context.Context, client rueidis.Client, from, to *account, most int64) (moved int64, err error) {
	here, err := balance(ctx, client, from)
	if err != nil {
		return 0, err
	}
	there, err := balance(ctx, client, to)
	if err != nil {
		return 0, err
	}
	time.Sleep(2 * time.Millisecond) // long enough for others to come in between, if they could
	moved = min(most, here)
	if err := setBalance(ctx, client, from, here-moved); err != nil {
		return 0, err
	}
	return moved, setBalance(ctx, client, to, there+moved)
}

func balance(ctx context.Context, client rueidis.Client, a *account) (int64, error) {
	n, err := client.Do(ctx, client.B().Get().Key(a.key).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("balance of %s: %w", a.name, err)
	}
	return n, nil
}

func setBalance(ctx context.Context, client rueidis.Client, a *account, n int64) error {
	set := client.B().Set().Key(a.key).Value(strconv.FormatInt(n, 10)).Build()
	if err := client.Do(ctx, set).Error(); err != nil {
		return fmt.Errorf("balance of %s: %w", a.name, err)
	}
	return nil
}
