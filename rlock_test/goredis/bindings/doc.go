// Package bindings calls the scripts of the corpus through go-redis. All files but this one are
// generated.
package bindings

import corpus "github.com/rlock-go/toolkit/rlock_test/corpus/bindings"

//go:generate go run -C ../../.. ./generator/redislua -client goredis -scripts rlock_test/corpus/lua -out rlock_test/goredis/bindings

// Go types that the scripts name.
type (
	Job     = corpus.Job
	Receipt = corpus.Receipt
	Profile = corpus.Profile
	Cart    = corpus.Cart
	Event   = corpus.Event
)
