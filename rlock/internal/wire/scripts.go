package wire

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
)

// Locks has the scripts for locks without queues and shares. *gen.Scripts runs them on the server of the
// client. A backend in place of Redis does what they do, without a client.
type Locks interface {
	Acquire(context.Context, rueidis.Client, gen.AcquireParams) (gen.AcquireResult, error)
	AcquireAll(context.Context, rueidis.Client, gen.AcquireAllParams) (gen.AcquireAllResult, error)
	RaiseFenceBatch(context.Context, rueidis.Client, []gen.RaiseFenceParams) []redislua.Reply[int64]
	HandOver(context.Context, rueidis.Client, gen.HandOverParams) (gen.HandOverResult, error)
	Extend(context.Context, rueidis.Client, gen.ExtendParams) ([]int64, error)
	ExtendBatch(context.Context, rueidis.Client, []gen.ExtendParams) []redislua.Reply[[]int64]
	ReleaseManyBatch(context.Context, rueidis.Client, []gen.ReleaseManyParams) []redislua.Reply[[]int64]
	Inspect(context.Context, rueidis.Client, gen.InspectParams) (gen.InspectResult, error)
	InspectBatch(context.Context, rueidis.Client, []gen.InspectParams) []redislua.Reply[gen.InspectResult]
}

// Scripts returns the scripts without the retries of package gen. Package wire repeats commands without an
// answer, and keeps what is known of them.
func Scripts() *gen.Scripts { return gen.New(redislua.WithoutRetry()) }
