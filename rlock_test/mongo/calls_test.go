package mongo_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmongo"
)

// opened returns a Backend on a collection of its own, behind a proxy of its own.
func opened(t *testing.T) (*proxy, *mongo.Collection, *rlockmongo.Backend) {
	t.Helper()
	p := startProxy(t, ferret)
	locks := collection(t, p.uri(), bson.NewObjectID().Hex())
	b := open(t, locks)
	p.commands()
	return p, locks, b
}

func acquire(t *testing.T, b rlock.Backend, key, token string, ttl time.Duration, want bool) time.Duration {
	t.Helper()
	acquired, left, err := b.Acquire(t.Context(), key, token, ttl)
	require.NoError(t, err)
	require.Equal(t, want, acquired)
	return left
}

// What New asks, and what each call costs.
func TestCommands(t *testing.T) {
	t.Parallel()
	p := startProxy(t, ferret)
	b := open(t, collection(t, p.uri(), bson.NewObjectID().Hex()))
	began := p.commands()
	require.Equal(t, "createIndexes", began[0].name)
	require.Equal(t, "hello", began[1].name) // again, if a round trip was slow
	index := began[0].body.Lookup("indexes", "0").Document()
	require.Equal(t, int32(3600), index.Lookup("expireAfterSeconds").Int32())
	require.Equal(t, "expires_1", index.Lookup("name").StringValue())

	for _, call := range []struct {
		name string
		do   func()
		want []string
	}{
		{"Acquire", func() { acquire(t, b, "k", "a", time.Hour, true) }, []string{"update"}},
		{"Acquire for another", func() { acquire(t, b, "k", "b", time.Hour, false) }, []string{"update", "find"}},
		{"Extend", func() {
			held, err := b.Extend(t.Context(), "k", "a", time.Hour)
			require.NoError(t, err)
			require.True(t, held)
		}, []string{"update"}},
		{"Holder", func() {
			token, _, err := b.Holder(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, "a", token)
		}, []string{"find"}},
		{"Release", func() {
			released, err := b.Release(t.Context(), "k", "a")
			require.NoError(t, err)
			require.True(t, released)
		}, []string{"delete"}},
		{"Fence", func() {
			_, err := b.Fence(t.Context(), "k")
			require.NoError(t, err)
		}, []string{"findAndModify"}},
	} {
		call.do()
		require.Equal(t, call.want, p.names(), call.name)
	}
}

// Whatever the program has set for its collection, and though its context has a session with a transaction,
// locks are written to a majority, read from the primary, and in no transaction.
func TestConcerns(t *testing.T) {
	t.Parallel()
	p := startProxy(t, ferret)
	locks := collection(t, p.uri(), bson.NewObjectID().Hex())
	client := locks.Database().Client()
	weak := locks.Clone(options.Collection().
		SetWriteConcern(writeconcern.Unacknowledged()).SetReadPreference(readpref.SecondaryPreferred()))
	session, err := client.StartSession()
	require.NoError(t, err)
	defer session.EndSession(context.WithoutCancel(t.Context()))
	require.NoError(t, session.StartTransaction())
	ctx := mongo.NewSessionContext(t.Context(), session)

	b, err := rlockmongo.New(ctx, weak)
	require.NoError(t, err)
	acquired, _, err := b.Acquire(ctx, "k", "a", time.Hour)
	require.NoError(t, err)
	require.True(t, acquired)
	_, err = b.Fence(ctx, "k")
	require.NoError(t, err)
	held, err := b.Extend(ctx, "k", "a", time.Hour)
	require.NoError(t, err)
	require.True(t, held)
	token, _, err := b.Holder(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "a", token)
	released, err := b.Release(ctx, "k", "a")
	require.NoError(t, err)
	require.True(t, released)

	for _, c := range p.commands() {
		require.NotContains(t, c.body.String(), "autocommit", "it is in a transaction")
		switch c.name {
		case "update", "delete", "findAndModify", "createIndexes":
			require.Equal(t, "majority", c.body.Lookup("writeConcern", "w").StringValue(), c.name)
		case "find":
			require.Equal(t, "majority", c.body.Lookup("readConcern", "level").StringValue())
			fallthrough
		default:
			mode, is := c.body.Lookup("$readPreference", "mode").StringValueOK()
			require.True(t, !is || mode == "primary" || mode == "primaryPreferred", "%v", c.body)
		}
	}
}

// What is not UTF-8 is not sent.
func TestStringsOfMongoDB(t *testing.T) {
	t.Parallel()
	p, _, b := opened(t)
	const bad = "a\xff"
	_, _, err := b.Acquire(t.Context(), bad, "a", time.Hour)
	_, _, err2 := b.Acquire(t.Context(), "k", bad, time.Hour)
	_, err3 := b.Extend(t.Context(), bad, "a", time.Hour)
	_, err4 := b.Release(t.Context(), bad, "a")
	_, _, err5 := b.Holder(t.Context(), bad)
	for _, err := range []error{err, err2, err3, err4, err5} {
		require.EqualError(t, err, `rlockmongo: "a\xff" is not UTF-8, as keys and tokens must be in MongoDB`)
	}
	require.Empty(t, p.names())
	_, err = rlockmongo.New(t.Context(), nil)
	require.EqualError(t, err, "rlockmongo: the collection is nil")
}

// A document that is none of a lock is not taken for one, and not changed.
func TestForeignDocuments(t *testing.T) {
	t.Parallel()
	_, locks, b := opened(t)
	for name, document := range map[string]bson.D{
		"empty":     {},
		"no date":   {{Key: "token", Value: "a"}, {Key: "expires", Value: int64(0)}},
		"no string": {{Key: "token", Value: 1}, {Key: "expires", Value: bson.DateTime(1 << 50)}},
	} {
		_, err := locks.InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: name}}, document...))
		require.NoError(t, err)
		_, _, err = b.Acquire(t.Context(), name, "b", time.Hour)
		require.ErrorContains(t, err, "is none of a lock; delete it", name)
		_, _, err = b.Holder(t.Context(), name)
		require.ErrorContains(t, err, "is none of a lock; delete it", name)
	}
	fences := document(t, `{"_id": {"counter": "fence"}, "value": -7}`)
	_, err := locks.InsertOne(t.Context(), fences)
	require.NoError(t, err)
	_, err = b.Fence(t.Context(), "k")
	require.ErrorContains(t, err, "is no positive integer of 64 bits")
}

// The counter of fences is no lock, whatever keys are called.
func TestFencesAreNoKeys(t *testing.T) {
	t.Parallel()
	_, locks, b := opened(t)
	first, err := b.Fence(t.Context(), "k")
	require.NoError(t, err)
	for _, key := range []string{"counter", "fence", `{"counter":"fence"}`, `{"counter": "fence"}`} {
		acquire(t, b, key, "a", time.Hour, true)
		released, err := b.Release(t.Context(), key, "a")
		require.NoError(t, err)
		require.True(t, released)
	}
	second, err := b.Fence(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, first+1, second)
	left, err := locks.CountDocuments(t.Context(), bson.D{})
	require.NoError(t, err)
	require.Equal(t, int64(1), left)
}
