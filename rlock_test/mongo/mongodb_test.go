package mongo_test

import (
	"context"
	"os"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/backendtest"
)

// On a MongoDB, nothing is between it and the driver: it makes its commands atomic itself, and has the index
// and the concerns that FerretDB lacks.
func TestMongoDB(t *testing.T) {
	t.Parallel()
	uri := os.Getenv("RLOCK_MONGODB")
	if uri == "" {
		t.Skip("RLOCK_MONGODB has no mongodb:// URI, so nothing is tested on MongoDB itself")
	}
	locks := collection(t, uri, bson.NewObjectID().Hex())
	t.Cleanup(func() { _ = locks.Drop(context.WithoutCancel(t.Context())) })
	backendtest.Run(t, func(t *testing.T) rlock.Backend { return open(t, locks) })
}
