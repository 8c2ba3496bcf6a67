package wire

import (
	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
)

// Scripts returns the scripts as this module calls them: what gets no answer is repeated here, with
// what is known of it, and not by package gen.
func Scripts() *gen.Scripts { return gen.New(redislua.WithoutRetry()) }
