// Package gen calls the lock scripts of this repository through go-redis. All files but this one
// are generated.
package gen

//go:generate go run -C ../../.. ./generator/redislua -client goredis -scripts scripts -out rlock_test/goredis/gen
