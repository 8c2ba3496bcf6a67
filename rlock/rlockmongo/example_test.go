package rlockmongo_test

import (
	"context"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmongo"
)

func Example() {
	set := "mongodb://a.example,b.example,c.example/?replicaSet=rs0"
	client, err := mongo.Connect(options.Client().ApplyURI(set))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := client.Disconnect(context.Background()); err != nil {
			log.Print(err)
		}
	}()

	start, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	backend, err := rlockmongo.New(start, client.Database("jobs").Collection("locks"))
	if err != nil {
		log.Print(err)
		return
	}
	locker, err := rlock.NewWithBackend(backend)
	if err != nil {
		log.Print(err)
		return
	}
	defer locker.Close()

	err = locker.Do(context.Background(), "billing", func(ctx context.Context, lock *rlock.Lock) error {
		return bill(ctx, lock.Fence())
	})
	if err != nil {
		log.Print(err)
	}
}

func bill(context.Context, uint64) error { return nil }
