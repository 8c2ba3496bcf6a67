package mongo_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/backends"
)

func TestLoccoOnMongoDB(t *testing.T) {
	t.Parallel()
	locks := collection(t, startProxy(t, ferret).uri(), bson.NewObjectID().Hex())
	first, second := open(t, locks), open(t, locks)
	backends.Locco(t, func(t *testing.T) (one, other *rlock.Locker) {
		prefix := rlock.WithPrefix(bson.NewObjectID().Hex() + ":")
		return backends.Open(t, first, prefix), backends.Open(t, second, prefix)
	})
}
