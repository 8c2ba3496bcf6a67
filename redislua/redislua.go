// Package redislua has the types that all bindings of Redis Lua scripts share. The generator of this module
// writes bindings for a directory of scripts: a package of typed calls, which take and return these types.
// So one errors.As finds the errors of all bindings, for each client.
//
// Packages luaimpl, here and in the module redislua/goredis, are for generated code only.
package redislua

import "time"

// Null is a value that may be absent, like sql.Null.
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
	Hit   bool // true: the answer came from the cache, and the client asked no server

	// Until is the time when the cache drops the answer, by the clock of this machine. The key lasts at
	// least as long. Until is zero if the client has no cache.
	Until time.Time
}

// Option is an option of the function New of a package of bindings. The zero Option changes nothing.
type Option struct{ name string }

// WithoutRetry makes the client send each call once and return each error at once. Use it if the caller
// repeats calls itself.
func WithoutRetry() Option { return Option{"WithoutRetry"} }
