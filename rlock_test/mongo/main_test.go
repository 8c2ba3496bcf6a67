package mongo_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/FerretDB/FerretDB/ferretdb"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/backendtest"
	"github.com/rlock-go/toolkit/rlock/rlockmongo"
)

// ferret is the address of the embedded server, which has its files in a directory of the run.
var ferret string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rlock-mongo-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(slog.DiscardHandler),
		Handler:   "sqlite",
		SQLiteURL: "file:" + dir + "/?_pragma=synchronous(off)",
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx) // it returns nil
	}()
	defer func() {
		stop()
		<-ended
	}()
	ferret = strings.Trim(strings.TrimPrefix(server.MongoDBURI(), "mongodb://"), "/")
	return m.Run()
}

// collection returns a new one for each name, through a client of its own.
func collection(t *testing.T, uri, name string) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client.Database("rlock_test").Collection(name)
}

// direct is the URI of a proxy. It has nothing that a driver would use for sets of replicas.
func (p *proxy) uri() string { return "mongodb://" + p.address + "/?directConnection=true" }

func open(t *testing.T, locks *mongo.Collection) *rlockmongo.Backend {
	t.Helper()
	b, err := rlockmongo.New(t.Context(), locks)
	require.NoError(t, err)
	return b
}

// On a MongoDB, nothing is between it and the driver: it makes its commands atomic itself, and has the index
// and the concerns that FerretDB lacks. The suite says so if RLOCK_MONGODB names none.
func TestBackend(t *testing.T) {
	t.Parallel()
	servers := map[string]string{"FerretDB": startProxy(t, ferret).uri()}
	if uri := os.Getenv("RLOCK_MONGODB"); uri != "" {
		servers["MongoDB"] = uri
	}
	for name, uri := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks := collection(t, uri, bson.NewObjectID().Hex())
			t.Cleanup(func() { _ = locks.Drop(context.WithoutCancel(t.Context())) })
			backendtest.Run(t, func(t *testing.T) rlock.Backend { return open(t, locks) })
		})
	}
}
