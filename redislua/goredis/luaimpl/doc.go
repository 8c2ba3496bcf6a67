// Package luaimpl is for generated code only: bindings for go-redis call it. What users of
// bindings name is in package redislua.
//
// Its files call.go, decode.go, lua.go and version.go, and their tests, are copies: edit those of
// redislua/luaimpl, and run go generate ./redislua/... in their module.
package luaimpl
