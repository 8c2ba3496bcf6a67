package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// opening is the first balance of each account.
const opening = 100

// bank keeps each balance in its own Redis key, and does not protect the balance. A move reads, pauses, and
// writes the new balance. If another worker writes in between, the move overwrites that balance, and money
// disappears or doubles. Only the locks around the moves keep the total right.
type bank struct{ accounts []*account }

type account struct {
	name    string
	key     string // of the balance
	visitor string // key of the count of workers that use the account now
	visits  string // key of the count of all visits by workers
}

// lock is the name of the account's lock. It differs from the key of the balance, because the key of a lock
// has the holder's token as its value.
func (a *account) lock() string { return "account:" + a.name }

func newBank(prefix string) *bank {
	b := &bank{}
	for _, name := range []string{"ada", "ben", "cleo", "dan", "eve", "finn"} {
		b.accounts = append(b.accounts,
			&account{name: name, key: prefix + "balance:" + name, visitor: prefix + "visitors:" + name,
				visits: prefix + "visits:" + name})
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

// pair draws two different accounts, in any order.
func (b *bank) pair() (from, to *account) {
	i := rand.IntN(len(b.accounts))
	j := rand.IntN(len(b.accounts) - 1)
	if j >= i {
		j++
	}
	return b.accounts[i], b.accounts[j]
}

// transferred is what a worker has moved and counted in two accounts.
type transferred struct {
	Amount int64
	Visits [2]int64 // at each of the two accounts, including this visit
	Others int64    // other workers at the accounts at the same time: must be 0
}

// move takes up to most from one account and gives it to the other. The caller must hold the locks of both.
func move(ctx context.Context, client rueidis.Client, from, to *account, most int64) (transferred, error) {
	var done transferred
	for i, a := range []*account{from, to} {
		visitors, err := count(ctx, client, a.visitor, 1)
		if err != nil {
			return done, err
		}
		done.Others += visitors - 1
		if done.Visits[i], err = count(ctx, client, a.visits, 1); err != nil {
			return done, err
		}
	}
	here, err := balance(ctx, client, from)
	if err != nil {
		return done, err
	}
	there, err := balance(ctx, client, to)
	if err != nil {
		return done, err
	}
	time.Sleep(2 * time.Millisecond) // long enough for another worker to come in between, if the locks let it
	done.Amount = min(most, here)
	if err := setBalance(ctx, client, from, here-done.Amount); err != nil {
		return done, err
	}
	if err := setBalance(ctx, client, to, there+done.Amount); err != nil {
		return done, err
	}
	for _, a := range []*account{from, to} {
		if _, err := count(ctx, client, a.visitor, -1); err != nil {
			return done, err
		}
	}
	return done, nil
}

func count(ctx context.Context, client rueidis.Client, key string, by int64) (int64, error) {
	return client.Do(ctx, client.B().Incrby().Key(key).Increment(by).Build()).AsInt64()
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
