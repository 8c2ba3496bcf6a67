module github.com/rlock-go/toolkit/redislua/goredis

go 1.25.0

// Only here: who requires this module gets the version below or a later one.
replace github.com/rlock-go/toolkit => ../..

require (
	github.com/redis/go-redis/v9 v9.19.0
	github.com/rlock-go/toolkit v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
