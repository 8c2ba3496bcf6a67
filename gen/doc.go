// Package gen calls the lock scripts of this module. It is generated from the
// Lua files in scripts, which say what each call does; it holds no policy. For
// locks, use package rlock.
package gen

//go:generate go run ../generator/redislua -scripts ../scripts -out .
