// Package rlockmongo keeps locks in a collection of MongoDB, for programs that have MongoDB and no Redis:
//
//	backend, err := rlockmongo.New(ctx, client.Database("jobs").Collection("locks"))
//	...
//	locker, err := rlock.NewWithBackend(backend)
//
// The caller brings the client, of go.mongodb.org/mongo-driver/v2. rlockmongo is a module of its own, so
// rlock itself does not require MongoDB:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockmongo
//
// # What is stored
//
//   - A held key is a document: {_id: key, token: string, expires: date}. A lease without an end ends with
//     the year 9999. expires is a date because the server deletes documents only by dates.
//   - All keys share one counter of fences: {_id: {counter: "fence"}, value: long}. Do not drop it: fences
//     would begin again at 1.
//   - Keep nothing else in the collection, and give the collection no collation.
//
// # Why a key has one holder
//
// MongoDB changes a document atomically, and has one document for an _id. One update with upsert takes a key.
// It matches a document whose lease is over, or that has the same token. If neither is true, the upsert
// cannot insert a second one, and the server returns an error.
//
// A write is complete when a majority of the replicas has it, so no failover undoes it. Each call may be
// repeated, also by the driver's retryable writes. The Backend ignores a session in the context: it takes no
// lock in a transaction.
//
// # Whose clock
//
// Leases end by the clock of the servers, never by the clock of the process. The Backend asks for the time
// with the command hello, after an error and otherwise at most once in five seconds. The round trip gives the
// bounds of the time. The Backend writes leases by the latest possible time, and counts leases as over by the
// earliest.
//
// So leases do not overlap while the clocks of the servers are within 100 ms of each other, which NTP
// achieves. This means all servers of a replica set, or all mongos. The lease of a holder that died is free
// some 100 ms to a second later.
//
// # What it costs
//
//   - Acquire, Extend and Release cost one round trip each, and a write to a majority.
//   - If another token has the key, Acquire reads once more. A waiter asks up to four times a second.
//   - Fences write one document, one after the other. That limits the locks in a second, for all keys
//     together.
//
// # What it needs
//
// MongoDB 4.4.2 or later. The user needs the rights to find, insert, update, remove and create an index in the
// collection. The role readWrite has them. The tests run on FerretDB 1.24, which has no replicas and no index
// for expiry. So for a replica set the promises rely on MongoDB.
package rlockmongo
