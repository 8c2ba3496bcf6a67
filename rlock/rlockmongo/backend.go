package rlockmongo

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rlock-go/toolkit/rlock"
)

// Backend is a rlock.Backend and a rlock.Fencer. New returns one.
type Backend struct {
	leases *mongo.Collection
	clock  *clock
}

var (
	_ rlock.Backend = (*Backend)(nil)
	_ rlock.Fencer  = (*Backend)(nil)
)

// kept is how many seconds the server keeps the document of a lease that is over. No call relies on the
// deletion. In an hour, even a server with a wrong clock deletes no lease that is not over.
const kept = 3600

// never is the end of a lease without an end, so leases can always grow by $max. A shell can show this date,
// and it is later than the end of any TTL.
var never = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// counter is the _id of the document that counts fences. It is no string, so no key can equal it.
var counter = bson.D{{Key: "counter", Value: "fence"}}

// New returns a Backend that keeps its locks in a collection. The collection must have nothing else in it.
// New makes an index by which the server deletes old leases, so New fails if the server does not answer or
// refuses writes. The client stays open. The Backend reads from the primary and writes to a majority,
// whatever concerns and preferences the collection has.
func New(ctx context.Context, collection *mongo.Collection) (*Backend, error) {
	if collection == nil {
		return nil, rlock.Refused(errors.New("rlockmongo: the collection is nil"))
	}
	b := &Backend{leases: collection.Clone(options.Collection().
		SetWriteConcern(writeconcern.Majority()).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()))}
	b.clock = newClock(b.hello)
	ctx = alone(ctx)
	_, err := b.leases.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "expires", Value: 1}},
		Options: options.Index().SetExpireAfterSeconds(kept),
	})
	if err == nil {
		_, _, err = b.clock.read(ctx)
	}
	if err != nil {
		return nil, b.failed(ctx, err)
	}
	return b, nil
}

// alone removes the session from a context. A lock from a transaction would have no holder until the commit.
func alone(ctx context.Context) context.Context { return mongo.NewSessionContext(ctx, nil) }

// hello asks the primary, or a mongos, for the time.
func (b *Backend) hello(ctx context.Context) (time.Time, error) {
	answer, err := b.leases.Database().RunCommand(ctx, bson.D{{Key: "hello", Value: 1}},
		options.RunCmd().SetReadPreference(readpref.Primary())).Raw()
	if err != nil {
		return time.Time{}, err
	}
	at, is := answer.Lookup("localTime").TimeOK()
	if !is {
		return time.Time{}, errors.New("the server does not say what time it is: hello has no localTime")
	}
	return at, nil
}

// check refuses text that is no BSON string. A server may accept the text and change it.
func check(strings ...string) error {
	for _, s := range strings {
		if !utf8.ValidString(s) {
			return rlock.Refused(fmt.Errorf("rlockmongo: %q is not UTF-8, as keys and tokens must be in MongoDB", s))
		}
	}
	return nil
}

// end returns when a lease of ttl from now ends by the server's clock, in whole milliseconds, rounded up.
func end(latest time.Time, ttl time.Duration) bson.DateTime {
	if ttl == rlock.NoExpiry {
		return bson.NewDateTimeFromTime(never)
	}
	return bson.NewDateTimeFromTime(latest.Add(time.Millisecond - 1).Add(ttl))
}

// lease is the content of a document.
type lease struct {
	token string
	left  time.Duration
}

// find returns the lease of a key, or the zero lease if no token has the key.
func (b *Backend) find(ctx context.Context, key string, over time.Time) (lease, error) {
	document, err := b.leases.FindOne(ctx, bson.D{{Key: "_id", Value: key}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return lease{}, nil
	}
	if err != nil {
		return lease{}, err
	}
	token, isString := document.Lookup("token").StringValueOK()
	ends, isDate := document.Lookup("expires").DateTimeOK()
	left := time.Duration(ends-int64(bson.NewDateTimeFromTime(over))) * time.Millisecond
	switch {
	case !isString || !isDate:
		return lease{}, rlock.Refused(fmt.Errorf("the document %q of collection %s is none of a lock; "+
			"delete it, and give locks a collection of their own", key, b.leases.Name()))
	case ends >= never.UnixMilli():
		return lease{token, rlock.NoExpiry}, nil
	case left <= 0:
		return lease{}, nil
	}
	return lease{token, left}, nil
}

// Acquire implements rlock.Backend. An update with upsert takes a key in three cases: the key has no
// document, the token has the lease, or the lease is over. If another token has the lease, the upsert would
// insert a second document with the same _id, and fails.
func (b *Backend) Acquire(
	ctx context.Context, key, token string, ttl time.Duration,
) (acquired bool, left time.Duration, err error) {
	if err := check(key, token); err != nil {
		return false, 0, err
	}
	ctx = alone(ctx)
	for {
		over, latest, err := b.clock.read(ctx)
		if err != nil {
			return false, 0, b.failed(ctx, err)
		}
		_, err = b.leases.UpdateOne(ctx,
			bson.D{{Key: "_id", Value: key}, {Key: "$or", Value: bson.A{
				bson.D{{Key: "token", Value: token}},
				bson.D{{Key: "expires", Value: bson.D{{Key: "$lte", Value: bson.NewDateTimeFromTime(over)}}}},
			}}},
			bson.D{
				{Key: "$set", Value: bson.D{{Key: "token", Value: token}}},
				{Key: "$max", Value: bson.D{{Key: "expires", Value: end(latest, ttl)}}},
			},
			options.UpdateOne().SetUpsert(true))
		if !mongo.IsDuplicateKeyError(err) {
			return err == nil, 0, b.failed(ctx, err)
		}
		holder, err := b.find(ctx, key, over)
		switch {
		case err != nil:
			return false, 0, b.failed(ctx, err)
		case holder.token != token:
			return false, holder.left, nil
		}
		// An earlier call for this token has arrived meanwhile.
	}
}

// held are the documents in which token has the key.
func held(key, token string, over time.Time) bson.D {
	return bson.D{
		{Key: "_id", Value: key},
		{Key: "token", Value: token},
		{Key: "expires", Value: bson.D{{Key: "$gt", Value: bson.NewDateTimeFromTime(over)}}},
	}
}

// Extend implements rlock.Backend.
func (b *Backend) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	if err := check(key, token); err != nil {
		return false, err
	}
	ctx = alone(ctx)
	over, latest, err := b.clock.read(ctx)
	if err != nil {
		return false, b.failed(ctx, err)
	}
	result, err := b.leases.UpdateOne(ctx, held(key, token, over),
		bson.D{{Key: "$max", Value: bson.D{{Key: "expires", Value: end(latest, ttl)}}}})
	if err != nil {
		return false, b.failed(ctx, err)
	}
	return result.MatchedCount > 0, nil
}

// Release implements rlock.Backend.
func (b *Backend) Release(ctx context.Context, key, token string) (released bool, err error) {
	if err := check(key, token); err != nil {
		return false, err
	}
	ctx = alone(ctx)
	over, _, err := b.clock.read(ctx)
	if err != nil {
		return false, b.failed(ctx, err)
	}
	result, err := b.leases.DeleteOne(ctx, held(key, token, over))
	if err != nil {
		return false, b.failed(ctx, err)
	}
	return result.DeletedCount > 0, nil
}

// Holder implements rlock.Backend. In a network partition, a former primary may answer for some seconds,
// until it notices that it is no primary.
func (b *Backend) Holder(ctx context.Context, key string) (token string, left time.Duration, err error) {
	if err := check(key); err != nil {
		return "", 0, err
	}
	ctx = alone(ctx)
	over, _, err := b.clock.read(ctx)
	if err != nil {
		return "", 0, b.failed(ctx, err)
	}
	l, err := b.find(ctx, key, over)
	if err != nil {
		return "", 0, b.failed(ctx, err)
	}
	return l.token, l.left, nil
}

// Fence implements rlock.Fencer with one document for all keys. A counter for each key could never be
// deleted.
func (b *Backend) Fence(ctx context.Context, _ string) (uint64, error) {
	ctx = alone(ctx)
	for {
		document, err := b.leases.FindOneAndUpdate(ctx,
			bson.D{{Key: "_id", Value: counter}},
			bson.D{{Key: "$inc", Value: bson.D{{Key: "value", Value: int64(1)}}}},
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Raw()
		if mongo.IsDuplicateKeyError(err) {
			continue // another call has made the document
		}
		if err != nil {
			return 0, b.failed(ctx, err)
		}
		value, is := document.Lookup("value").Int64OK()
		if !is || value <= 0 {
			return 0, rlock.Refused(fmt.Errorf("rlockmongo: the counter of fences in collection %s is no positive "+
				"integer of 64 bits, but %v; set it to one that is larger than each that was", b.leases.Name(), document))
		}
		return uint64(value), nil
	}
}
