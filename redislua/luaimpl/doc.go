// Package luaimpl is for generated code only: bindings for rueidis call it. What users of
// bindings name is in package redislua. The module redislua/goredis has the same package for go-redis.
//
// The files call.go, decode.go, lua.go and version.go know nothing of the client. go generate copies them,
// with their tests, to that module.
package luaimpl
