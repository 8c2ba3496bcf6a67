// Package goredis tries the bindings that the generator writes for go-redis. Its tests make the
// same calls through them and through the bindings for rueidis, and compare what both answer. It
// is a module of its own, so that nobody who imports rlock requires go-redis.
//
//   - gen has the lock scripts
//   - bindings has the corpus of rlock_test/corpus
//   - reads has the scripts of lua, written with -replicas and -standalone
package goredis
