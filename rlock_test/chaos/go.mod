module github.com/rlock-go/toolkit/rlock_test/chaos

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/redis/rueidis v1.0.79
	github.com/rlock-go/toolkit v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.47.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/rlock-go/toolkit => ../..
