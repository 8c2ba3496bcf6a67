package interrupt

import (
	"context"
	"reflect"
	"time"

	"github.com/redis/rueidis"
)

// Steady returns c, but for a client that asks a context for its Done channel before it sends a command, and
// not while the command is under way. If Done panicked then, rueidis would never take the answer, and its
// connection would serve nobody any more.
func Steady(c rueidis.Client) rueidis.Client { return steady{c} }

type steady struct{ rueidis.Client }

func (c steady) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return c.Client.Do(settled(ctx), command)
}

func (c steady) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return c.Client.DoMulti(settled(ctx), commands...)
}

func (c steady) DoCache(ctx context.Context, command rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	return c.Client.DoCache(settled(ctx), command, ttl)
}

// own are types of package context whose Done calls nobody else's.
var own = func() (types []reflect.Type) {
	cancelled, cancel := context.WithCancel(context.Background())
	defer cancel()
	limited, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	for _, ctx := range []context.Context{context.Background(), cancelled, limited, context.WithoutCancel(limited)} {
		types = append(types, reflect.TypeOf(ctx))
	}
	return types
}()

// settled returns ctx, or a context with what it has if its Done may call code of the user's.
func settled(ctx context.Context) context.Context {
	is := reflect.TypeOf(ctx)
	for _, t := range own {
		if is == t {
			return ctx
		}
	}
	return &doneBefore{ctx, ctx.Done()}
}

// doneBefore is a context that was asked for its Done channel before.
type doneBefore struct {
	context.Context
	done <-chan struct{}
}

func (c *doneBefore) Done() <-chan struct{} { return c.done }
