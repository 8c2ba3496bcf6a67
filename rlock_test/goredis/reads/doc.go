// Package reads calls scripts through go-redis, and lets it send those that only read to replicas.
// All files but this one are generated.
package reads

//go:generate go run -C ../../.. ./generator/redislua -client goredis -replicas -standalone -scripts rlock_test/goredis/lua -out rlock_test/goredis/reads
