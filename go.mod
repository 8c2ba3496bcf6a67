module github.com/rlock-go/toolkit

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/dave/jennifer v1.7.1
	github.com/google/uuid v1.6.0
	github.com/redis/rueidis v1.0.79
	github.com/rogpeppe/go-internal v1.16.0 // the diffs that the generator prints, and its test scripts
	github.com/stretchr/testify v1.12.1
	github.com/yuin/gopher-lua v1.1.2
	go.uber.org/goleak v1.3.0 // tests only
	golang.org/x/sys v0.47.0 // the terminal of the command, on every Unix
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
