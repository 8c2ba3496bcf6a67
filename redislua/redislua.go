// Package redislua is what bindings of Redis Lua scripts have in common: the generator of this module
// writes a package of typed calls for a directory of scripts, and its calls take and return these types.
// So one errors.As finds the errors of all bindings, and a [Null] of one is a [Null] of another, for
// whichever client they are written.
//
// Packages luaimpl, here and in the module redislua/goredis, are for generated code only.
package redislua

import "time"

// Null is a value that may be absent, in the manner of sql.Null.
type Null[T any] struct {
	V     T
	Valid bool // false: the script answered nil, and V is the zero value
}

// Reply is the outcome of one call of a batch.
type Reply[T any] struct {
	Value T     // the answer; the zero value when Err is set
	Err   error // nil when Value is an answer
}

// Cached is an answer that may come from the client-side cache.
type Cached[T any] struct {
	Value T
	Hit   bool // true: it came from the cache, and no server was asked

	// Until is when the cache stops serving it, by the clock of this machine: no later than the key lasts.
	// It is zero if the client has no cache.
	Until time.Time
}

// Option changes what the function New of a package of bindings returns. The zero Option changes nothing.
type Option struct{ name string }

// WithoutRetry makes the client send every call once, so that every error is returned at
// once. It is for callers that have retries of their own.
func WithoutRetry() Option { return Option{"WithoutRetry"} }
