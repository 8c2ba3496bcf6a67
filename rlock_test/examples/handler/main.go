// Command handler is an HTTP service with a lock for each account. Any number of them may run.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/handler -listen localhost:8080
//	curl -X POST 'localhost:8080/accounts/17/withdraw?amount=10'
//
// A request waits for its account for two seconds at most. Then the service answers:
//
//   - 409 if another request holds the account.
//   - 503 if Redis has not answered. The service logs this.
//
// On SIGTERM, the service ends its requests, and each request releases its lock.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	flag.Parse()
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		log.Fatal(err)
	}

	accounts := &accounts{locker: locker, client: locker.Client()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/withdraw", accounts.withdraw)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		// First end the handlers, because they use locks. Then end the locks that are left. Each step has its
		// own time limit. If the handlers use all of theirs, locker.Shutdown still ends their contexts and
		// frees their locks.
		for _, shutdown := range []func(context.Context) error{server.Shutdown, locker.Shutdown} {
			ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			if err := shutdown(ending); err != nil {
				log.Print(err)
			}
			cancel()
		}
	}()
	fmt.Println("listening on", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-ended
	fmt.Println("done")
}

// accounts keeps balances in Redis, one key each.
type accounts struct {
	locker *rlock.Locker
	client rueidis.Client
}

var errTooLittle = errors.New("the balance is too small")

func (a *accounts) withdraw(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	amount, err := strconv.ParseInt(r.FormValue("amount"), 10, 64)
	if err != nil || amount <= 0 {
		http.Error(w, "amount must be a positive number", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()

	var left int64
	err = a.locker.Do(ctx, "account:"+id, func(ctx context.Context, lock *rlock.Lock) error {
		balance, err := a.client.Do(ctx, a.client.B().Get().Key("balance:"+id).Build()).AsInt64()
		if err != nil {
			return err
		}
		if left = balance - amount; left < 0 {
			return errTooLittle
		}
		return a.client.Do(ctx, a.client.B().Set().Key("balance:"+id).Value(
			strconv.FormatInt(left, 10)).Build()).Error()
	})
	switch {
	case err == nil:
		fmt.Fprintln(w, left)
	case errors.Is(err, errTooLittle):
		http.Error(w, err.Error(), http.StatusPaymentRequired)
	// First ErrNoAnswer, because the same error may match ErrGaveUp: the state of the account is unknown.
	case errors.Is(err, rlock.ErrNoAnswer):
		log.Print("no answer from Redis: ", err)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case errors.Is(err, rlock.ErrGaveUp):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the account is busy", http.StatusConflict)
	default: // Redis refuses, or the lock is lost: log the error, but hide it from the client
		log.Print(err)
		http.Error(w, "try again later", http.StatusInternalServerError)
	}
}
