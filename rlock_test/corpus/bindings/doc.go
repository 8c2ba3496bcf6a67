// Package bindings calls the scripts of the corpus: Lua in the styles that
// projects use Redis with, from rate limiters to guarded writes. All files but
// this one and types.go are generated.
package bindings

//go:generate go run ../../../generator/redislua -scripts ../lua -out .
