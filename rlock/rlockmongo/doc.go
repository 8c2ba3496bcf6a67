// Package rlockmongo keeps locks in a collection of MongoDB, for programs that have MongoDB and no Redis:
//
//	backend, err := rlockmongo.New(ctx, client.Database("jobs").Collection("locks"))
//	...
//	locker, err := rlock.NewWithBackend(backend)
//
// The client is yours, of go.mongodb.org/mongo-driver/v2. It is a module of its own, so that rlock itself
// requires nothing of MongoDB:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockmongo
//
// # What is stored
//
// A held key is a document: {_id: key, token: string, expires: date}. Who has a key without an end has it
// until the end of the year 9999. expires is a date, and not a number, because only dates can have the server
// delete documents. Fences have one counter, {_id: {counter: "fence"}, value: long}, for all keys. Do not
// drop it: fences begin again at 1 then. Keep nothing else in the collection, and give it no collation.
//
// # Why nobody else has the key
//
// MongoDB changes a document atomically, and has one document with an _id. A key is taken by one update with
// upsert of the document whose lease is over, or the same token's. If there is one that is neither, the
// upsert cannot insert another, and the server says so. Writes are done when a majority of the replicas has
// them, so no failover undoes them. Each call may be repeated, as the driver's retryable writes do. A session
// in the context is left out: no lock is taken in a transaction.
//
// # Whose clock
//
// Leases end by the servers' clock, never the process's. The Backend asks for it with the command hello, at
// most once in five seconds or after an error, and knows by the round trip within which bounds it is. It
// writes leases by the latest time that may be, and takes them for over by the earliest. So leases do not overlap,
// as long as the clocks of all servers of a replica set, or of all mongos, are within 100 ms of each other,
// which NTP does. A lease of somebody who died is free some 100 ms to a second later.
//
// # What it costs
//
// Acquire, Extend and Release are a round trip and a write to a majority each. If somebody else has the key,
// Acquire reads once more, and who waits asks up to four times a second. Fences write one document, in turn:
// they limit how many locks are taken in a second, all keys together.
//
// # What it needs
//
// MongoDB 5.0, or 4.4.2, and the rights to find, insert, update, remove and create an index in the
// collection: those of the role readWrite. The tests run on FerretDB 1.24, which has neither replicas nor
// the index: that a set of replicas does what is asked of it is MongoDB's promise.
package rlockmongo
