package corpus_test

import (
	"flag"
	"testing"
)

// scenarios are the scripts at work, those together that belong together.
var scenarios = map[string]func(*testing.T, target){
	"address admission":    addressAdmission,
	"announcements":        announce,
	"anything":             anything,
	"apply change":         applyChange,
	"board":                board,
	"bloom filter":         bloomFilter,
	"cache eviction":       cacheEviction,
	"cache stampede":       cacheStampede,
	"cached reads":         cachedReads,
	"cart":                 cart,
	"checkin":              checkin,
	"concurrency limit":    concurrencyLimit,
	"counter":              counter,
	"counters":             counters,
	"deduplication":        deduplication,
	"delayed queue":        delayedQueue,
	"document":             document,
	"event history":        eventHistory,
	"fenced put":           fencedPut,
	"fifo queue":           fifoQueue,
	"fixed window":         fixedWindow,
	"flags":                flags,
	"geo":                  geo,
	"guarded put":          guardedPut,
	"idempotency":          idempotency,
	"inventory":            inventory,
	"leaderboard":          leaderboard,
	"leaky bucket":         leakyBucket,
	"mean":                 mean,
	"numbers":              numbers,
	"presence":             presence,
	"priority queue":       priorityQueue,
	"reliable queue":       reliableQueue,
	"rights":               rights,
	"safe increment":       safeIncrement,
	"semaphore":            semaphore,
	"session":              session,
	"set and notify":       setAndNotify,
	"set many":             setMany,
	"shards":               shards,
	"sliding counter":      slidingCounter,
	"sliding log":          slidingLog,
	"stream":               stream,
	"swap":                 swap,
	"tags":                 tags,
	"token bucket":         tokenBucket,
	"token bucket refills": tokenBucketRefills,
	"transfer":             transfer,
	"unique visitors":      uniqueVisitors,
	"values":               values,
	"weights":              weights,
	"work stealing":        workStealing,
}

func testFlag(name string) string { return flag.Lookup("test." + name).Value.String() }
