package fencing_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"
	_ "modernc.org/sqlite"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

var errStale = errors.New("a later holder of the lock has written already")

// setBalance writes an account's balance, unless a later holder of its lock has
// written before. The same holder may write as often as it likes.
func setBalance(ctx context.Context, db *sql.DB, account int, balance int, fence uint64) error {
	result, err := db.ExecContext(ctx,
		`UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
		balance, int64(fence), account)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return errStale
	}
	return nil
}

// A holder that was paused for longer than its lease writes too late, and the
// database refuses it.
func Example_sql() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	if _, err := db.ExecContext(ctx, `
		CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0);
		INSERT INTO account (id, balance) VALUES (17, 100)`); err != nil {
		log.Fatal(err)
	}
	client, done := embedded()
	defer done()
	paused, next := twoHolders(ctx, client)

	fmt.Println("next:  ", setBalance(ctx, db, 17, 70, next.Fence()))
	fmt.Println("again: ", setBalance(ctx, db, 17, 60, next.Fence()))
	fmt.Println("paused:", setBalance(ctx, db, 17, 95, paused.Fence()))
	var balance int
	if err := db.QueryRowContext(ctx, `SELECT balance FROM account WHERE id = 17`).Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance", balance)

	// Output:
	// next:   <nil>
	// again:  <nil>
	// paused: a later holder of the lock has written already
	// balance 60
}

// The same in Redis, with the binding of a script that is "fenced by" its
// argument: the generator has proved that it writes nothing before it has compared.
func Example_redis() {
	ctx := context.Background()
	client, done := embedded()
	defer done()
	paused, next := twoHolders(ctx, client)

	scripts := bindings.New()
	put := func(text string, lock *rlock.Lock) error {
		return scripts.FencedPut(ctx, client,
			bindings.FencedPutParams{Entry: "balance:17", Text: text, Fence: lock})
	}

	fmt.Println("next:  ", put("70", next))
	fmt.Println("paused:", errors.Is(put("95", paused), bindings.ErrStaleFence))

	// Output:
	// next:   <nil>
	// paused: true
}

// twoHolders returns a lock whose holder has slept through its lease, and that
// of the holder who came after it.
func twoHolders(ctx context.Context, client rueidis.Client) (paused, next *rlock.Lock) {
	locker, err := rlock.New(client)
	if err != nil {
		log.Fatal(err)
	}
	if paused, err = locker.Acquire(ctx, "account:17", rlock.WithTTL(3*time.Second)); err != nil {
		log.Fatal(err)
	}
	if next, err = locker.Acquire(ctx, "account:17"); err != nil { // once the lease has ended
		log.Fatal(err)
	}
	return paused, next
}

// embedded returns a client of a server that lives until done is called.
func embedded() (client rueidis.Client, done func()) {
	server, err := rlocktest.Open()
	if err != nil {
		log.Fatal(err)
	}
	if client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}}); err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}
